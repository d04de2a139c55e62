"""Reads the workloads of a definition: one line of JSON each, which says the sizes of axes and where the inputs come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from kbench.contract.sizes import evaluate, shape
from kbench.contract.tensor import Draw, Fill, Integers, Tensor, integers
from kbench.results.case import FLOATING, LIKE_NUMBER, Case, Value
from kbench.results.names import fault as name_fault
from kbench.sources.flashinfer_trace.definition import DefinitionFile
from kbench.sources.flashinfer_trace.located_json import JsonValue, read_json_lines
from kbench.sources.flashinfer_trace.safetensors import StoredTensor, find_tensor
from kbench.sources.problems.calls import standing_for
from kbench.sources.problems.drawn_together import DrawnTogether
from kbench.sources.problems.own_tolerance import OwnTolerance

WORKLOAD = "workload"
"""The choice that names a workload, if its sizes and scalars do not say all of it."""

RANDOM_INTEGERS = {"int8": integers(128, low=-128), "uint8": integers(256)}
"""How random whole numbers are drawn: as flashinfer-bench draws them. Others are from -1024 to 1023."""

DEFAULT_TOLERANCE = OwnTolerance(1e-2, 1e-2)
"""flashinfer-bench's own, where a workload has none."""


@dataclass(frozen=True)
class Workload:
    """A workload.

    word     its name as a value of the choice `workload`
    axes     the sizes of the variable axes
    scalars  the values of the scalars
    sources  where each tensor comes from: `random`, `custom`, or a file
    """

    word: str
    axes: Mapping[str, int]
    scalars: Mapping[str, Value]
    sources: Mapping[str, str | StoredTensor]
    tolerance: OwnTolerance = DEFAULT_TOLERANCE

    @property
    def from_files(self) -> bool:
        return any(isinstance(source, StoredTensor) for source in self.sources.values())

    @property
    def point(self) -> dict[str, Value]:
        return {**self.axes, **self.scalars}


def read_workloads(file: Path, definition: DefinitionFile) -> list[Workload]:
    """The workloads of a definition in a file, each line one. Raises SourceFault."""
    found = []
    for line in read_json_lines(file):
        line.mapping()
        if "workload" in line:  # a line of a trace
            if "definition" in line and line.at("definition").value != definition.name:
                continue
            line = line.at("workload")
            line.mapping()
        found.append(_workload(line, definition))
    return found


def _workload(line: JsonValue, definition: DefinitionFile) -> Workload:
    sizes = line.at("axes").mapping()
    axes = {}
    for name in definition.axes:
        if name not in sizes:
            raise line.at("axes").fault(f"the key `axes` has no {name}, which is a variable axis of {definition.name}")
        axes[name] = sizes[name].whole()
    given = line.at("inputs").mapping()
    scalars: dict[str, Value] = {}
    sources: dict[str, str | StoredTensor] = {}
    for name, tensor in definition.inputs.items():
        if name not in given:
            raise line.at("inputs").fault(f"the key `inputs` has no {name}, which is an input of {definition.name}")
        source = given[name]
        source.mapping()
        allowed = ("scalar",) if tensor is None else ("random", "safetensors", "custom")
        kind = source.at("type").word(allowed)
        if tensor is None:
            scalars[name] = _scalar(source.at("value"), definition.scalars[name])
        elif kind == "safetensors":
            sources[name] = _stored(source, definition, name, axes)
        elif kind == "custom" and definition.custom is None:
            raise source.fault(f"{name} is custom, but the definition has no custom_inputs_entrypoint")
        else:
            sources[name] = kind
    return Workload(_word(line), axes, scalars, sources, _tolerance(line))


def _stored(source: JsonValue, definition: DefinitionFile, name: str, axes: Mapping[str, int]) -> StoredTensor:
    stored, declared = find_tensor(source, definition.file), definition.tensors[name]
    is_, must = (stored.shape, stored.dtype), (shape(declared.sizes, axes), getattr(torch, str(declared.dtype)))
    if is_ != must:
        what = f"{name} is {is_[1]} of shape {is_[0]} in {stored.file}; it must be {must[1]} of shape {must[0]}"
        raise source.at("tensor_key").fault(f"tensor {source.value['tensor_key']}: {what}".replace("torch.", ""))
    return stored


def _scalar(value: JsonValue, dtype: str) -> Value:
    number = value.number()
    return bool(number) if dtype == "bool" else float(number) if dtype in FLOATING else int(number)


def _word(line: JsonValue) -> str:
    """The workload's uuid, if it can be a word of a choice."""
    word = line.at("uuid").value
    right = isinstance(word, str) and not name_fault(word) and not LIKE_NUMBER.fullmatch(word)
    return word if right and word.lower() not in ("true", "false") else f"line {line.line + 1}"


def _tolerance(line: JsonValue) -> OwnTolerance:
    if "tolerance" not in line:
        return DEFAULT_TOLERANCE
    own = line.at("tolerance")
    own.mapping()

    def number(key: str, default: float) -> float:
        return float(own.at(key).number()) if key in own else default

    cap = float(own.at("max_error_cap").number()) if "max_error_cap" in own else None
    return OwnTolerance(number("max_atol", 1e-2), number("max_rtol", 1e-2), number("required_matched_ratio", 0.99), cap)


def needs_choice(workloads: Sequence[Workload]) -> bool:
    """Whether the sizes and the scalars of a workload do not say what its inputs hold."""
    return any(each.from_files or each.sources != workloads[0].sources for each in workloads)


def with_fills(
    definition: DefinitionFile, workloads: Sequence[Workload], custom: Callable[..., Any] | None
) -> dict[str, Tensor]:
    """The tensors that a definition takes, filled as its workloads say."""
    names = list(definition.tensors)
    together = None if custom is None else DrawnTogether(partial(_custom, definition, custom, names))
    by_word = {each.word: each for each in workloads}
    filled = {}
    for position, (name, tensor) in enumerate(definition.tensors.items()):
        kinds = {each.sources[name] if isinstance(each.sources[name], str) else "" for each in workloads}
        fill: Fill | None = _random(str(tensor.dtype))
        if kinds != {"random"}:
            drawn = together.fill(position) if together else None
            own = _from(definition, name, by_word, drawn, workloads[0])
            fill = standing_for(own, custom) if custom else own
        filled[name] = Tensor(*tensor.sizes, dtype=tensor.dtype, fill=fill)
    return filled


def _random(dtype: str) -> Fill | None:
    return None if dtype in FLOATING or dtype == "bool" else RANDOM_INTEGERS.get(dtype, integers(1024, low=-1024))


def _from(
    definition: DefinitionFile,
    name: str,
    workloads: Mapping[str, Workload],
    drawn: Callable[[Case, Draw], torch.Tensor] | None,
    first: Workload,
) -> Callable[[Case, Draw], torch.Tensor]:
    """The fill of a tensor that is not random in every workload."""
    tensor, dtype = definition.tensors[name], str(definition.tensors[name].dtype)

    def fill(case: Case, draw: Draw) -> torch.Tensor:
        source = workloads.get(str(case.axes.get(WORKLOAD)), first).sources[name]
        made = drawn(case, draw) if drawn else None  # at every call: the function makes all inputs of a set at once
        if source == "custom":
            assert made is not None
            return made
        if isinstance(source, StoredTensor):
            return source.read().to(draw.uniform(0, 1, 0).device)
        if dtype in FLOATING:
            return draw.normal(*tensor.shape_in(case), dtype=dtype)
        integer = _random(dtype) or integers(2)
        assert isinstance(integer, Integers)
        return draw.integers(int(integer.low), int(integer.high), *tensor.shape_in(case), dtype=dtype)

    return fill


def _custom(
    definition: DefinitionFile, function: Callable[..., Any], names: Sequence[str], case: Case, device: torch.device
) -> list[torch.Tensor]:
    """The inputs that the problem's function makes; an empty tensor for those that it does not make."""
    sizes = {name: evaluate(size, case.axes) for name, size in definition.derived.items()}
    scalars = {name: case.axes[name] for name in definition.scalars}
    axes = {name: case.axes[name] for name in definition.axes}
    made = function({**definition.constants, **axes, **sizes, **scalars}, device)
    if not isinstance(made, Mapping):
        raise TypeError(f"{definition.custom} returned {type(made).__name__}; it must return a dict of tensors")
    return [made.get(name, torch.empty(0)) for name in names]
