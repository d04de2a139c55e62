"""FlashInfer-Trace problems, and those of SOL-ExecBench: a definition, its workloads and its solutions as JSON files.

Formats: flashinfer-bench, `docs/flashinfer-trace/`; SOL-ExecBench, `docs/definition.md`, `workload.md` and `solution.md`.

A definition becomes an operator: variable axes are its axes, constant ones are numbers, and inputs without a shape are scalars.
A workload becomes a case. The provider `reference` is the definition's own code, and every solution is another provider. Only
workers import this package: it runs other people's code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from kbench.contract.operator import Operator
from kbench.contract.origin import shipped
from kbench.protocol import SourceSweep
from kbench.results.case import Case, Value
from kbench.sources.fault import SourceFault
from kbench.sources.flashinfer_trace.definition import DefinitionFile, read_definition
from kbench.sources.flashinfer_trace.solutions import add_provider, read_solutions
from kbench.sources.flashinfer_trace.workloads import WORKLOAD, Workload, needs_choice, read_workloads, with_fills
from kbench.sources.problems.calls import OUTPUT_ULPS, REFERENCE, as_outputs, reference_of, standing_for
from kbench.sources.problems.drawn_together import draw_on_host
from kbench.sources.problems.exact import allows_float64
from kbench.sources.problems.foreign_code import function_of, run_text
from kbench.sources.problems.formats import MOST_FILES, definition_files
from kbench.sources.problems.own_tolerance import use_own_tolerance


def load(path: Path) -> Sequence[SourceSweep]:
    """Register the operator of a problem. Raises SourceFault."""
    files = definition_files(path)
    if len(files) != 1:
        example = f"; name one of them, for example {files[0].relative_to(path)}" if files else ""
        raise SourceFault(str(path), f"holds {len(files)} definitions{example}")
    definition = read_definition(files[0])
    module = run_text(definition.reference, f"{definition.file}, reference")
    function = function_of(module, "run", f"{definition.file}, reference")
    custom = None
    if definition.custom:
        custom = function_of(module, definition.custom, f"{definition.file}, reference")
    workloads = _workloads(definition)
    try:
        operator = _operator(definition, workloads, function, custom)
        solutions = read_solutions(_solution_files(definition), definition)
    except ValueError as error:  # a name that kbench does not allow, or that is taken
        raise SourceFault(str(definition.file), str(error)) from None
    for solution in solutions:
        try:
            add_provider(operator, solution, definition)
        except ValueError as error:
            raise SourceFault(str(solution.file), str(error)) from None
    word = WORKLOAD in operator.choices
    points = [
        {**each.point, **({WORKLOAD: each.word} if word else {}), "dtype": definition.dtype} for each in workloads
    ]
    providers: dict[str, Mapping[str, tuple[Value, ...]]] = {REFERENCE: {}, **{each.name: {} for each in solutions}}
    return [SourceSweep(operator.name, tuple(points), providers)]


def _workloads(definition: DefinitionFile) -> list[Workload]:
    for file in _beside(
        definition, "workloads", ("workload", "workloads", definition.file.stem, definition.name), "jsonl"
    ):
        if file.is_file():
            if found := read_workloads(file, definition):
                return found
            raise SourceFault(str(file), f"has no workload of {definition.name}")
    if definition.axes or definition.scalars:
        wanted = ", ".join((*definition.axes, *definition.scalars))
        what = f"the values of {wanted} are not known; write them into a file workload.jsonl beside the definition"
        raise SourceFault(str(definition.file), what)
    return [Workload("all", {}, {}, dict.fromkeys(definition.tensors, "custom" if definition.custom else "random"))]


def _solution_files(definition: DefinitionFile) -> list[Path]:
    beside = [file for file in definition.file.parent.glob("*.json") if file != definition.file]
    root = _data_set(definition)
    inside = islice((root / "solutions").rglob("*.json"), MOST_FILES) if root else ()
    named = [file for file in inside if definition.name in file.read_text(encoding="utf-8", errors="replace")]
    return sorted({*beside, *named} - set(definition_files(definition.file.parent)))


def _beside(definition: DefinitionFile, folder: str, stems: Sequence[str], suffix: str) -> list[Path]:
    """Where a file that belongs to a definition may be: beside it, and in a folder of its data set."""
    found = [definition.file.with_name(f"{stem}.{suffix}") for stem in stems if Path(stem).name == stem]
    if root := _data_set(definition):
        found += sorted(islice((root / folder).rglob(f"{definition.file.stem}.{suffix}"), MOST_FILES))
    return found


def _data_set(definition: DefinitionFile) -> Path | None:
    """The folder that holds `definitions/`, `workloads/` and `solutions/`."""
    return next((folder.parent for folder in definition.file.absolute().parents if folder.name == "definitions"), None)


def _operator(
    definition: DefinitionFile,
    workloads: Sequence[Workload],
    function: Callable[..., Any],
    custom: Callable[..., Any] | None,
) -> Operator:
    """The operator of a definition, with the provider `reference`."""
    inputs = with_fills(definition, workloads, custom)
    dtypes = {name: getattr(torch, str(tensor.dtype)) for name, tensor in definition.outputs.items()}
    declared = [getattr(torch, str(tensor.dtype)) for tensor in inputs.values()]
    call = partial(_call, definition, function)
    name = definition.name if definition.name not in shipped() else f"{definition.name}-problem"
    smallest = min(workloads, key=lambda each: sum(each.axes.values()))
    case = Case(name, {**smallest.point, WORKLOAD: smallest.word}, definition.dtype)
    exact = allows_float64(
        partial(call, **smallest.point),
        [
            partial(_without_memory, tensor.shape_in(case), dtype)
            for tensor, dtype in zip(inputs.values(), declared, strict=True)
        ],
        lambda: [x.double() if x.is_floating_point() else x for x in draw_on_host(inputs.values(), case)],
    )
    choice = needs_choice(workloads) or (not exact and len({each.tolerance for each in workloads}) > 1)
    operator = Operator(
        name,
        axes=definition.axes,
        inputs=inputs,
        outputs=definition.outputs,
        scalars={each: smallest.scalars[each] for each in definition.scalars},  # type: ignore[misc]
        choices={WORKLOAD: tuple(each.word for each in workloads)} if choice else {},
        output_ulps=OUTPUT_ULPS,
        reference=standing_for(reference_of(call, dtypes, None if exact else declared), function),
        dtypes=(definition.dtype,),
        source=definition.json.text,
    )
    if not exact:
        tolerances = {each.word: each.tolerance for each in workloads}
        use_own_tolerance(operator, lambda case: tolerances[str(case.axes.get(WORKLOAD, workloads[0].word))])

    def own(*tensors: torch.Tensor, **values: Any) -> Any:
        return as_outputs(call(*tensors, **values), dtypes, tensors[0].device)

    operator.provider(REFERENCE, sources=[definition.file])(standing_for(own, function))
    return operator


def _call(definition: DefinitionFile, function: Callable[..., Any], *tensors: torch.Tensor, **values: Any) -> Any:
    """Call a function of the problem with its inputs in order."""
    left = iter(tensors)
    return function(*(values[name] if name in definition.scalars else next(left) for name in definition.inputs))


def _without_memory(shape: Sequence[int], dtype: torch.dtype, device: str) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.float64 if dtype.is_floating_point else dtype, device=device)
