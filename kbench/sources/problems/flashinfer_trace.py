"""FlashInfer-Trace problems, and those of SOL-ExecBench: JSON files with a definition, its workloads and its solutions.

Formats: flashinfer-bench, `docs/flashinfer-trace/`; SOL-ExecBench, `docs/definition.md`, `workload.md` and `solution.md`.

A definition becomes an operator: variable axes are its axes, constant ones are numbers, and inputs without a shape are scalars.
A workload becomes a case. If one takes inputs from a file, the axes are scalars, too, so that kbench tries no other sizes. The
provider `reference` is the definition's own code, and every solution is another provider. Only workers import this module: it
runs other people's code.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    ValidationError,
    model_validator,
)

from kbench.contract.names import fault as name_fault
from kbench.contract.operator import Operator
from kbench.contract.origin import registering_for
from kbench.contract.provider import ACCELERATORS
from kbench.contract.sizes import SizeError, axes_of, evaluate
from kbench.contract.tensor import Tensor, integers
from kbench.results.case import FLOATING, ITEMSIZE, LIKE_NUMBER, Case, Value
from kbench.sources import SourceFault, definition_files
from kbench.sources.problems.foreign_code import SolutionModules, function_of, run_text
from kbench.sources.problems.reference import (
    REFERENCE,
    Call,
    OwnTolerance,
    allows_float64,
    as_outputs,
    drawn,
    filled_together,
    own_name,
    problem_operator,
    standing_for,
)

WORKLOAD = "workload"
"""The choice that names a workload, if its sizes and scalars do not say all of it."""

DEFAULT_TOLERANCE = OwnTolerance(1e-2, 1e-2)
"""flashinfer-bench's own, where a workload has none."""

DEVICE_LANGUAGES = ("triton", "cute_dsl", "cutile", "cudnn_frontend")
LANGUAGES = ("python", "pytorch", *DEVICE_LANGUAGES)
"""The languages that kbench runs: those that are called from Python and need no build."""


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

    @classmethod
    def read(cls, value: object, where: str) -> Self:
        """The record that a JSON value holds. Raises SourceFault."""
        if not isinstance(value, dict):
            raise SourceFault(where, "it must hold a JSON object")
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field, message = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
            raise SourceFault(where, f"{field}: {message}" if field else message) from None


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

    @property
    def own(self) -> OwnTolerance:
        return OwnTolerance(self.max_atol, self.max_rtol, self.required_matched_ratio, self.max_error_cap)


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


class Solution(_Record):
    """Source files, and how to call them. With `writes_outputs`, a call gets output tensors, too, and returns nothing."""

    name: Word
    definition: str
    sources: list[SolutionSource]
    languages: Annotated[
        tuple[Word, ...],
        BeforeValidator(lambda words: (words,) if isinstance(words, str) else words),
        Field(
            min_length=1, validation_alias=AliasChoices(AliasPath("spec", "languages"), AliasPath("spec", "language"))
        ),
    ]
    entry_point: Word = Field(validation_alias=AliasPath("spec", "entry_point"))
    writes_outputs: bool = Field(default=True, validation_alias=AliasPath("spec", "destination_passing_style"))

    @model_validator(mode="after")
    def _has_entry(self) -> Solution:
        entry, function = self.entry
        if entry not in self.files or not function:
            example = f"{next(iter(self.files), 'main.py')}::run"
            rule = f"must name one of the sources and a function in it, for example {example}"
            raise ValueError(f"spec.entry_point: is {self.entry_point!r:.80}; it {rule}")
        return self

    @property
    def entry(self) -> tuple[str, str]:
        """A file and a function in it."""
        file, _, function = self.entry_point.partition("::")
        return file, function

    @property
    def files(self) -> dict[str, str]:
        return {source.path: source.content for source in self.sources}


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

    def operator(self) -> Operator:
        """The operator, with the provider `reference`."""
        definition, (function, _) = self.definition, self._code
        inputs, outputs = self._inputs(), definition.output_tensors

        def call(tensors: Sequence[torch.Tensor], values: Mapping[str, Any]) -> Any:
            return function(*_arguments(definition, tensors, values))

        def code(dtype: str, device: torch.device, exact: bool) -> Call:
            return call

        name = own_name(definition.name)
        word, smallest = min(self.workloads.items(), key=lambda item: sum(item[1].axes.values()))
        point = smallest.point(definition)
        case = Case(name, {**point, WORKLOAD: word}, definition.dtype)
        make = partial(self._made, tuple(inputs))
        exact = allows_float64(code, inputs.values(), make, case, light=True)
        tolerances = {
            word: workload.tolerance.own if workload.tolerance else DEFAULT_TOLERANCE
            for word, workload in self.workloads.items()
        }
        has_choice = self._files or self._sources_differ or (not exact and len(set(tolerances.values())) > 1)
        scalars = (*(definition.variable_axes if self._files else ()), *definition.scalars)
        operator = problem_operator(
            name,
            code,
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
            return as_outputs(call(tensors, values), outputs, tensors[0].device)

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
        function, custom = self._code
        inputs, workloads = dict(self.definition.tensors), self.workloads.values()
        names = [name for name in inputs if any(not isinstance(work.inputs[name], RandomInput) for work in workloads)]
        fills = filled_together(partial(self._made, names), len(names), custom or function)
        for name, fill in zip(names, fills, strict=True):
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
            if solution.writes_outputs:
                return None
            return as_outputs(returned, definition.output_tensors, tensors[0].device)

        return call


def read_definition(file: Path) -> tuple[Definition, str]:
    """The definition in a file, and its text. Raises SourceFault."""
    text = _text(file)
    return Definition.read(_json(text, str(file)), str(file)), text


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
        workload = Workload.read(value, where)
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
            yield file, Solution.read(value, str(file))
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
