"""The JSON files of FlashInfer-Trace and SOL-ExecBench: definitions, workloads and solutions.

Formats: flashinfer-bench, `docs/flashinfer-trace/`; SOL-ExecBench, `docs/definition.md`, `workload.md` and `solution.md`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError, model_validator

from kbench.contract.names import fault as name_fault
from kbench.contract.sizes import SizeError, axes_of
from kbench.contract.tensor import Tensor, integers
from kbench.results.case import FLOATING, ITEMSIZE, LIKE_NUMBER, Value
from kbench.sources import SourceFault

Word = Annotated[str, Field(min_length=1)]

RANDOM_INTEGERS = {"int8": integers(128, low=-128), "uint8": integers(256)}
"""How random whole numbers are drawn: as flashinfer-bench draws them."""


def _known_dtype(dtype: str) -> str:
    if dtype not in ITEMSIZE:
        raise ValueError(f"dtype {dtype} is not supported; kbench has {', '.join(ITEMSIZE)}")
    return dtype


class _Record(BaseModel):
    """Entries that kbench does not need are ignored."""

    model_config = ConfigDict(frozen=True)


_AnyRecord = TypeVar("_AnyRecord", bound=_Record)


class ConstantAxis(_Record):
    type: Literal["const"]
    value: NonNegativeInt


class VariableAxis(_Record):
    type: Literal["var"]


class ComputedAxis(_Record):
    type: Literal["expr"]
    expression: Word


class TensorRecord(_Record):
    """A tensor, or without a shape a scalar."""

    shape: list[int | str] | None = None
    dtype: Annotated[str, AfterValidator(_known_dtype)]


class Definition(_Record):
    """The operator of a problem. `custom_inputs_entrypoint` is the function of its code that makes inputs."""

    name: Word
    axes: dict[str, Annotated[ConstantAxis | VariableAxis | ComputedAxis, Field(discriminator="type")]]
    inputs: dict[str, TensorRecord]
    outputs: dict[str, TensorRecord]
    reference: Word
    custom_inputs_entrypoint: Word | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Definition:
        if not self.tensors:
            raise ValueError("inputs: there is no input with a shape; kbench needs a tensor to call a provider with")
        if not self.outputs:
            raise ValueError("outputs: there are no outputs; declare at least one")
        for kind, records in (("inputs", self.inputs), ("outputs", self.outputs)):
            for name, record in records.items():
                for word in map(str, record.shape or ()):
                    if word not in self.sizes and not word.isdigit():
                        axes = ", ".join(self.sizes)
                        raise ValueError(f"{kind}.{name}.shape: there is no axis {word}; the axes are {axes}")
        return self

    @cached_property
    def sizes(self) -> dict[str, str]:
        """Each axis as a size: a number, itself, or an expression in variable axes."""
        sizes: dict[str, str] = {}
        for name, axis in self.axes.items():
            match axis:
                case ConstantAxis():
                    sizes[name] = str(axis.value)
                case ComputedAxis():
                    sizes[name] = _written_out(f"axes.{name}.expression", axis.expression, sizes)
                case _:
                    sizes[name] = name
        return sizes

    @property
    def variable_axes(self) -> tuple[str, ...]:
        return tuple(name for name, axis in self.axes.items() if isinstance(axis, VariableAxis))

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """The inputs that are tensors, filled with random values."""
        return {name: self._tensor(record) for name, record in self.inputs.items() if record.shape is not None}

    @cached_property
    def output_tensors(self) -> dict[str, Tensor]:
        """The outputs. A scalar is a tensor without dimensions."""
        return {name: self._tensor(record) for name, record in self.outputs.items()}

    def _tensor(self, record: TensorRecord) -> Tensor:
        fill = None
        if record.dtype not in (*FLOATING, "bool"):
            fill = RANDOM_INTEGERS.get(record.dtype, integers(1024, low=-1024))
        sizes = (self.sizes.get(str(size), str(size)) for size in record.shape or ())
        return Tensor(*sizes, dtype=record.dtype, fill=fill)

    @property
    def scalars(self) -> dict[str, str]:
        """The dtypes of the inputs that are scalars."""
        return {name: record.dtype for name, record in self.inputs.items() if record.shape is None}

    @property
    def dtype(self) -> str:
        """The dtype that names its cases: that of the first floating-point output, or else of the first output."""
        dtypes = [record.dtype for record in self.outputs.values()]
        return next((dtype for dtype in dtypes if dtype in FLOATING), dtypes[0])


def _written_out(where: str, expression: str, sizes: Mapping[str, str]) -> str:
    """An expression in variable axes: the axes before it are written out."""
    size = re.sub(r"[A-Za-z_]\w*", lambda axis: sizes.get(axis[0], axis[0]), f"({expression})")
    try:
        axes_of(size)
    except SizeError:
        problem = f"{expression!r:.80} is not supported; it may have axes, whole numbers, + - * / // and ()"
        raise ValueError(f"{where}: {problem}") from None
    return size


class RandomInput(_Record):
    type: Literal["random"]


class CustomInput(_Record):
    type: Literal["custom"]


class ScalarInput(_Record):
    type: Literal["scalar"]
    value: bool | int | float


class StoredInput(_Record):
    type: Literal["safetensors"]
    path: Word
    tensor_key: Word


class Tolerance(_Record):
    max_atol: float = 1e-2
    max_rtol: float = 1e-2
    required_matched_ratio: float = 0.99
    max_error_cap: float | None = None


class Workload(_Record):
    """The sizes of a case and where its inputs come from."""

    uuid: Any = None
    axes: dict[str, NonNegativeInt]
    inputs: dict[str, Annotated[RandomInput | CustomInput | ScalarInput | StoredInput, Field(discriminator="type")]]
    tolerance: Tolerance | None = None

    def word(self, line: int) -> str:
        """Its uuid, if it can be a word of a choice."""
        is_word = isinstance(self.uuid, str) and not name_fault(self.uuid) and not LIKE_NUMBER.fullmatch(self.uuid)
        return self.uuid if is_word and self.uuid.lower() not in ("true", "false") else f"line {line}"

    def fault(self, definition: Definition) -> str | None:
        """Why it does not fit a definition."""
        for axis in definition.variable_axes:
            if axis not in self.axes:
                return f"axes: there is no {axis}, which is a variable axis of {definition.name}"
        for name in definition.inputs:
            if name not in self.inputs:
                return f"inputs: there is no {name}, which is an input of {definition.name}"
            source = self.inputs[name]
            if isinstance(source, ScalarInput) != (name in definition.scalars):
                kind = "a scalar" if name in definition.scalars else "a tensor"
                return f"inputs.{name}.type: is {source.type}, but {name} is {kind}"
            if isinstance(source, CustomInput) and not definition.custom_inputs_entrypoint:
                return f"inputs.{name}.type: is custom, but the definition has no custom_inputs_entrypoint"
        return None

    def point(self, definition: Definition) -> dict[str, Value]:
        """The sizes of the variable axes and the values of the scalars."""
        point: dict[str, Value] = {axis: self.axes[axis] for axis in definition.variable_axes}
        for name, dtype in definition.scalars.items():
            source = self.inputs[name]
            assert isinstance(source, ScalarInput)
            kind = bool if dtype == "bool" else float if dtype in FLOATING else int
            point[name] = kind(source.value)
        return point


class SolutionSource(_Record):
    path: Word
    content: str


class SolutionSpec(_Record):
    language: Word | None = None
    languages: tuple[Word, ...] = ()
    entry_point: Word
    destination_passing_style: bool | None = None


class Solution(_Record):
    """Source files, and how to call them."""

    name: Word
    definition: str
    spec: SolutionSpec
    sources: list[SolutionSource]

    @model_validator(mode="after")
    def _has_entry(self) -> Solution:
        if not self.languages:
            raise ValueError("spec.language: is missing; name the language of the solution")
        entry, function = self.entry
        if entry not in self.files or not function:
            example = f"{next(iter(self.files), 'main.py')}::run"
            rule = f"must name one of the sources and a function in it, for example {example}"
            raise ValueError(f"spec.entry_point: is {self.spec.entry_point!r:.80}; it {rule}")
        return self

    @property
    def languages(self) -> tuple[str, ...]:
        return self.spec.languages or ((self.spec.language,) if self.spec.language else ())

    @property
    def entry(self) -> tuple[str, str]:
        """A file and a function in it."""
        file, _, function = self.spec.entry_point.partition("::")
        return file, function

    @property
    def files(self) -> dict[str, str]:
        return {source.path: source.content for source in self.sources}

    @property
    def writes_outputs(self) -> bool:
        """Whether it writes into output tensors that it is given after the inputs, and returns nothing."""
        return self.spec.destination_passing_style is not False


def read_definition(file: Path) -> tuple[Definition, str]:
    """The definition in a file, and its text. Raises SourceFault."""
    text = _text(file)
    return _record(Definition, _json(text, str(file)), str(file)), text


def read_workloads(file: Path, definition: Definition) -> dict[str, Workload]:
    """The workloads of a definition in a file, each line one, by their words. Raises SourceFault."""
    workloads = {}
    for number, line in enumerate(_text(file).split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{file}:{number}"
        value = _json(line, where)
        if isinstance(value, dict) and "workload" in value:  # a line of a trace
            if value.get("definition", definition.name) != definition.name:
                continue
            value = value["workload"]
        workload = _record(Workload, value, where)
        if fault := workload.fault(definition):
            raise SourceFault(where, fault)
        workloads[workload.word(number)] = workload
    return workloads


def read_solutions(files: Sequence[Path], definition: Definition, folder: Path) -> Iterator[tuple[Path, Solution]]:
    """The solutions of a definition among JSON files. Names those of other definitions that are in its folder. Raises
    SourceFault for a solution that is malformed."""
    for file in files:
        value = _json(_text(file), str(file))
        if not isinstance(value, dict) or not {"spec", "sources"} & value.keys():
            continue  # some other JSON
        definition_name = value.get("definition")
        if definition_name == definition.name:
            yield file, _record(Solution, value, str(file))
        elif file.parent == folder:
            text = f"{file.name} is a solution of {definition_name!r:.80}, not of {definition.name}"
            print(f"kbench: {text}", file=sys.stderr)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise SourceFault(str(file), "not UTF-8 text; save the file as UTF-8") from None


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise SourceFault(where, f"not JSON: {error}") from None


def _record(kind: type[_AnyRecord], value: object, where: str) -> _AnyRecord:
    if not isinstance(value, dict):
        raise SourceFault(where, "it must hold a JSON object")
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = "".join(f"{key}." for key in first["loc"]).rstrip(".")
        message = first["msg"].removeprefix("Value error, ")
        raise SourceFault(where, f"{field}: {message}" if field else message) from None
