"""FlashInfer-Trace problems, and those of SOL-ExecBench: a definition, its workloads and its solutions (see `trace_files.py`).

A definition becomes an operator: variable axes are its axes, constant ones are numbers, and inputs without a shape are scalars.
A workload becomes a case. If one takes inputs from a file, the axes are scalars, too, so that kbench tries no other sizes. The
provider `reference` is the definition's own code, and every solution is another provider. Only workers import this module: it
runs other people's code.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from pathlib import Path
from typing import Any

import torch

from kbench.contract.operator import Operator
from kbench.contract.origin import registering_for
from kbench.contract.provider import ACCELERATORS
from kbench.contract.sizes import evaluate
from kbench.contract.tensor import Tensor
from kbench.results.case import Case
from kbench.sources import SourceFault, definition_files
from kbench.sources.problems.foreign_code import SolutionModules, function_of, run_text
from kbench.sources.problems.inputs import DrawnTogether, drawn
from kbench.sources.problems.reference import (
    REFERENCE,
    Call,
    OwnTolerance,
    allows_float64,
    as_outputs,
    own_name,
    problem_operator,
    standing_for,
)
from kbench.sources.problems.trace_files import (
    CustomInput,
    Definition,
    RandomInput,
    Solution,
    StoredInput,
    Workload,
    read_definition,
    read_solutions,
    read_workloads,
)

WORKLOAD = "workload"
"""The choice that names a workload, if its sizes and scalars do not say all of it."""

DEFAULT_TOLERANCE = OwnTolerance(1e-2, 1e-2)
"""flashinfer-bench's own, where a workload has none."""

DEVICE_LANGUAGES = ("triton", "cute_dsl", "cutile", "cudnn_frontend")
LANGUAGES = ("python", "pytorch", *DEVICE_LANGUAGES)
"""The languages that kbench runs: those that are called from Python and need no build."""


def load(path: Path, solutions: Sequence[Path] = ()) -> dict[str, Any]:
    """Register the operator of a problem. Returns the content of its config. Raises SourceFault."""
    files = definition_files(path)
    if len(files) != 1:
        example = f"; name one of them, for example {files[0].relative_to(path)}" if files else ""
        raise SourceFault(str(path), f"holds {len(files)} definitions{example}")
    [file] = files
    definition, text = read_definition(file)
    problem = Problem(file, definition, text, _workloads(file, definition))
    try:
        operator = problem.operator()
    except ValueError as error:  # a name that kbench does not allow, or that is taken
        raise SourceFault(str(file), str(error)) from None
    paths = dict.fromkeys(path.resolve() for path in (*_solution_files(file, definition), *solutions))
    solution_of = dict(read_solutions(list(paths), definition, file.parent.resolve()))
    for named in solutions:
        if named.resolve() not in solution_of:
            raise SourceFault(str(named), f"holds no solution of {definition.name}")
    for where, solution in solution_of.items():
        try:
            with registering_for(str(where)):
                _add_provider(operator, where, solution, definition)
        except ValueError as error:
            raise SourceFault(str(where), str(error)) from None
    points = [
        {
            **workload.point(definition),
            **({WORKLOAD: name} if operator.choices else {}),
            "dtype": definition.dtype,
        }
        for name, workload in problem.workloads.items()
    ]
    return {"operator": operator.name, "sweep": points}


def _workloads(file: Path, definition: Definition) -> dict[str, Workload]:
    stems = ("workload", "workloads", file.stem, definition.name)
    beside = [file.with_name(f"{stem}.jsonl") for stem in stems if Path(stem).name == stem]
    for candidate in (*beside, *_in_data_set(file, "workloads", f"{file.stem}.jsonl")):
        if candidate.is_file():
            if workloads := read_workloads(candidate, definition):
                return workloads
            raise SourceFault(str(candidate), f"has no workload of {definition.name}")
    if unknown := (*definition.variable_axes, *definition.scalars):
        kind = "custom" if definition.custom_inputs_entrypoint else "random"
        inputs: dict[str, Any] = {name: {"type": kind} for name in definition.tensors}
        inputs.update({name: {"type": "scalar", "value": 1} for name in definition.scalars})
        line = json.dumps({"axes": dict.fromkeys(definition.variable_axes, 64), "inputs": inputs})
        problem = f"the values of {', '.join(unknown)} are not known"
        raise SourceFault(str(file), f"{problem}; write them into workload.jsonl beside it, with lines such as {line}")
    source = CustomInput(type="custom") if definition.custom_inputs_entrypoint else RandomInput(type="random")
    return {"all": Workload(axes={}, inputs=dict.fromkeys(definition.tensors, source))}


def _solution_files(file: Path, definition: Definition) -> list[Path]:
    beside = [candidate for candidate in file.parent.glob("*.json") if candidate != file]
    inside = _in_data_set(file, "solutions", "*.json")
    named = [
        candidate for candidate in inside if definition.name in candidate.read_text(encoding="utf-8", errors="replace")
    ]
    return sorted({*beside, *named} - set(definition_files(file.parent)))


def _in_data_set(file: Path, folder: str, pattern: str) -> Iterator[Path]:
    """The files of a folder beside the `definitions/` that hold a definition."""
    for above in file.absolute().parents:
        if above.name == "definitions":
            yield from sorted((above.parent / folder).rglob(pattern))
            return


@dataclass(frozen=True, eq=False)
class Problem:
    """A definition with the code of its reference, and its workloads by their words."""

    file: Path
    definition: Definition
    text: str
    workloads: Mapping[str, Workload]

    @cached_property
    def _code(self) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
        """The reference, and the function that makes inputs. Raises SourceFault."""
        name = f"{self.file}, reference"
        module = run_text(self.definition.reference, name)
        custom = self.definition.custom_inputs_entrypoint
        return function_of(module, "run", name), function_of(module, custom, name) if custom else None

    def _call(self, dtype: str, device: torch.device, *, exact: bool) -> Call:
        """The reference, whatever the dtype of the case."""
        function, _ = self._code
        return lambda tensors, values: function(*_arguments(self.definition, tensors, values))

    def operator(self) -> Operator:
        """The operator, with the provider `reference`."""
        definition, (function, _) = self.definition, self._code
        inputs, outputs = self._inputs(), definition.output_tensors
        name = own_name(definition.name)
        word, smallest = min(self.workloads.items(), key=lambda item: sum(item[1].axes.values()))
        point = smallest.point(definition)
        case = Case(name, {**point, WORKLOAD: word}, definition.dtype)
        make = partial(self._made, tuple(inputs))
        exact = allows_float64(self._call, inputs.values(), make, case, light=True)
        tolerances = {word: _tolerance(workload) for word, workload in self.workloads.items()}
        has_choice = self._files or self._sources_differ or (not exact and len(set(tolerances.values())) > 1)
        scalars = (*(definition.variable_axes if self._files else ()), *definition.scalars)
        operator = problem_operator(
            name,
            self._call,
            function,
            axes=() if self._files else definition.variable_axes,
            inputs=inputs,
            outputs=outputs,
            scalars={scalar: point[scalar] for scalar in scalars},
            choices={WORKLOAD: tuple(self.workloads)} if has_choice else {},
            tolerance_of=None if exact else lambda case: tolerances[self._word(case)],
            dtypes=(definition.dtype,),
            source=self.text,
        )

        def as_written(*tensors: torch.Tensor, **values: Any) -> Any:
            returned = function(*_arguments(definition, tensors, values))
            return as_outputs(returned, outputs, tensors[0].device)

        operator.provider(REFERENCE, sources=[self.file])(standing_for(as_written, function))
        return operator

    @cached_property
    def _files(self) -> dict[StoredInput, Path]:
        """The files from which workloads take inputs. They may be right for its sizes only: indices below one of them."""
        sources = {source for workload in self.workloads.values() for source in workload.inputs.values()}
        return {source: _find(source, self.file) for source in sources if isinstance(source, StoredInput)}

    @property
    def _sources_differ(self) -> bool:
        """Whether the sizes and the scalars of a workload do not say what its inputs hold."""
        sources = [
            {name: workload.inputs[name] for name in self.definition.tensors} for workload in self.workloads.values()
        ]
        return any(inputs != sources[0] for inputs in sources)

    def _word(self, case: Case) -> str:
        """The workload of a case: the first if all fill their inputs alike."""
        return str(case.axes.get(WORKLOAD, next(iter(self.workloads))))

    def _inputs(self) -> dict[str, Tensor]:
        """The tensors that the definition takes. Those that are not random in every workload are filled together."""
        _, custom = self._code
        inputs, workloads = dict(self.definition.tensors), self.workloads.values()
        names = [name for name in inputs if not all(isinstance(each.inputs[name], RandomInput) for each in workloads)]
        together = DrawnTogether(partial(self._made, names))
        for position, name in enumerate(names):
            fill = together.fill(position)
            fill = standing_for(fill, custom) if custom else fill
            inputs[name] = Tensor(*inputs[name].sizes, dtype=inputs[name].dtype, fill=fill)
        return inputs

    def _made(self, names: Collection[str], case: Case, device: torch.device) -> list[torch.Tensor]:
        """Inputs of a case, from where its workload takes them."""
        sources = self.workloads[self._word(case)].inputs
        from_code = any(isinstance(sources[name], CustomInput) for name in names)
        custom = self._custom(case, device) if from_code else {}
        tensors = []
        for name in names:
            tensor = self.definition.tensors[name]
            match source := sources[name]:
                case CustomInput():
                    tensors.append(custom.get(name, torch.empty(0)))
                case StoredInput():
                    stored = read_tensor(self._files[source], source.tensor_key)
                    if stored.shape != tensor.shape_in(case):
                        sizes = f"{tuple(stored.shape)}, not {tensor.shape_in(case)}"
                        raise ValueError(f"{self._files[source].name} has {source.tensor_key} with the sizes {sizes}")
                    tensors.append(stored.to(device))
                case _:
                    tensors.append(drawn(tensor, case, device))
        return tensors

    def _custom(self, case: Case, device: torch.device) -> Mapping[str, torch.Tensor]:
        """The inputs that the problem's function makes."""
        definition, (_, custom) = self.definition, self._code
        assert custom is not None
        axes = {name: evaluate(size, case.axes) for name, size in definition.sizes.items()}
        tensors = custom({**axes, **{name: case.axes[name] for name in definition.scalars}}, device)
        if not isinstance(tensors, Mapping):
            problem = f"{definition.custom_inputs_entrypoint} returned {type(tensors).__name__}"
            raise TypeError(f"{problem}; it must return a dict of tensors")
        return tensors


def _tolerance(workload: Workload) -> OwnTolerance:
    tolerance = workload.tolerance
    if tolerance is None:
        return DEFAULT_TOLERANCE
    return OwnTolerance(
        tolerance.max_atol, tolerance.max_rtol, tolerance.required_matched_ratio, tolerance.max_error_cap
    )


def _arguments(definition: Definition, tensors: Sequence[torch.Tensor], values: Mapping[str, Any]) -> Iterator[Any]:
    """The inputs in their order: the tensors, and the scalars in their places."""
    remaining = iter(tensors)
    for name in definition.inputs:
        yield values[name] if name in definition.scalars else next(remaining)


def _find(source: StoredInput, definition: Path) -> Path:
    """The file that a workload names, relative to a folder above the definition. Leading folders of the name may be missing
    there. Raises SourceFault."""
    parts = Path(source.path).parts
    for folder in definition.resolve().parents:
        for start in range(len(parts)):
            if (file := folder.joinpath(*parts[start:])).is_file():
                return file
    raise SourceFault(str(definition), f"no such file: {source.path}; a workload takes its inputs from it")


STORED_DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip


def read_tensor(file: Path, key: str) -> torch.Tensor:
    """A tensor of a safetensors file: 8 bytes with the length of a JSON header, the header, and the values.

    Raises OSError, and ValueError if there is no such tensor.
    """
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        header = json.loads(stream.read(length))
        if key not in header:
            raise ValueError(f"{file} has no tensor {key}; it has {', '.join(header)}")
        dtype, shape = STORED_DTYPES[header[key]["dtype"]], header[key]["shape"]
        stream.seek(8 + length + header[key]["data_offsets"][0])
        data = bytearray(stream.read(prod(shape) * dtype.itemsize))
    return torch.frombuffer(data, dtype=dtype).reshape(shape) if data else torch.empty(shape, dtype=dtype)


def _add_provider(operator: Operator, file: Path, solution: Solution, definition: Definition) -> None:
    """Register a solution. Its code runs when the provider is built, so that a fault in it costs its rows only."""
    languages = set(solution.languages)
    interpreted = languages == {"triton"} and os.environ.get("TRITON_INTERPRET") == "1"
    foreign = sorted(languages - set(LANGUAGES))
    modules = SolutionModules(file, solution.files)

    @operator.provider(
        solution.name,
        factory=True,
        requires=["triton"] if "triton" in languages else [],
        devices=ACCELERATORS if languages & set(DEVICE_LANGUAGES) and not interpreted else None,
        available=lambda: f"it is written in {foreign[0]}; kbench runs {', '.join(LANGUAGES)}" if foreign else None,
        sources=[file],
        out=list(definition.outputs) if solution.writes_outputs else (),
    )
    def build(case: Case, **values: Any) -> Callable[..., Any]:
        function = modules.function(*solution.entry)

        def call(*tensors: torch.Tensor, **buffers: torch.Tensor) -> Any:
            returned = function(*_arguments(definition, tensors, values), *buffers.values())
            return (
                None if solution.writes_outputs else as_outputs(returned, definition.output_tensors, tensors[0].device)
            )

        return call
