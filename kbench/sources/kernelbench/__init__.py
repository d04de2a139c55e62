"""KernelBench problems: a Python file with a class `Model` and the functions `get_inputs` and `get_init_inputs`.

Format: KernelBench, its README and `src/kernelbench/eval.py`. A solution is a file with a class `ModelNew`, which is made from
the same arguments.

The operator takes what `get_inputs` returns. Its axes are the constants of the file from which the sizes follow. The weights
are no inputs: they are made once per case, from the same seed for all providers. Only workers import this package: it runs
other people's code.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from kbench.contract.operator import Operator
from kbench.contract.origin import shipped
from kbench.contract.tensor import Tensor as Declared
from kbench.contract.tensor import total_bytes
from kbench.protocol import SourceSweep
from kbench.results.case import Case, Value
from kbench.sources.fault import SourceFault
from kbench.sources.kernelbench.model_file import ModelProblem
from kbench.sources.kernelbench.tracing import argument_names, model_allows_float64, trace_model
from kbench.sources.problems.calls import OUTPUT_ULPS, REFERENCE, as_double, as_outputs, standing_for
from kbench.sources.problems.drawn_together import DrawnTogether
from kbench.sources.problems.exact import in_float64
from kbench.sources.problems.foreign_code import run_file
from kbench.sources.problems.formats import model_files, model_solutions
from kbench.sources.problems.own_tolerance import OwnTolerance, use_own_tolerance

TOLERANCES = {
    "float32": OwnTolerance(1e-4, 1e-4),
    "float16": OwnTolerance(1e-2, 1e-2),
    "bfloat16": OwnTolerance(1e-2, 1e-2),
}
"""KernelBench's own, for models that do not run in float64."""

DTYPES = ("float32", "bfloat16", "float16")


def load(path: Path) -> Sequence[SourceSweep]:
    """Register the operator of a problem. Raises SourceFault."""
    files = model_files(path)
    solutions = model_solutions(path)
    files = [file for file in files if file not in solutions] or files
    if len(files) != 1:
        example = f"; name one of them, for example {files[0].name}" if files else ""
        raise SourceFault(str(path), f"holds {len(files)} problems{example}")
    problem = ModelProblem(files[0])
    torch.backends.cudnn.allow_tf32 = False  # a float32 convolution is judged against float64
    try:
        operator = _operator(problem, solutions)
    except ValueError as error:  # a name that kbench does not allow, or that is taken
        raise SourceFault(str(problem.file), str(error)) from None
    point: dict[str, Value] = {**{name: problem.constants[name] for name in operator.axes}, "dtype": operator.dtypes[0]}
    return [SourceSweep(operator.name, (point,), {name: {} for name in operator.providers})]


def _operator(problem: ModelProblem, solutions: Sequence[Path]) -> Operator:
    """The operator of a problem, with the provider `reference` and its solutions."""
    base, fitted = trace_model(problem)
    names = argument_names(problem, base)
    sizes = iter(fitted.sizes)
    together = DrawnTogether(partial(_make, problem))
    inputs: dict[str, Declared] = {}
    arguments = dict(zip(names, base.inputs, strict=True))
    for name, x in arguments.items():
        if isinstance(x, Tensor):
            shape = [next(sizes) for _ in x.shape]
            inputs[name] = Declared(*shape, dtype=_own_dtype(x), fill=together.fill(len(inputs)))
    outputs = {}
    for number, x in enumerate(base.outputs):
        name = "output" if len(base.outputs) == 1 else f"output_{number}"
        outputs[name] = Declared(*(next(sizes) for _ in x.shape), dtype=_own_dtype(x))
    exact = model_allows_float64(problem, base)
    call = partial(_call, arguments)
    operator = Operator(
        problem.file.stem if problem.file.stem not in shipped() else f"{problem.file.stem}-problem",
        axes=fitted.axes,
        inputs=inputs,
        outputs=outputs,
        reference=_reference(problem, fitted.axes, call, list(outputs), None if exact else inputs),
        bytes=lambda case: (
            total_bytes([*inputs.values(), *outputs.values()], case)
            + _weight_bytes(problem, case, {name: getattr(case, name) for name in fitted.axes})
        ),
        output_ulps=OUTPUT_ULPS,
        dtypes=DTYPES,
    )
    if not exact:
        use_own_tolerance(operator, lambda case: TOLERANCES[case.dtype])
    _add_provider(operator, problem, REFERENCE, problem.file, call, problem.model)
    for file in solutions:
        name = file.stem if file != problem.file else "ModelNew"
        _add_provider(operator, problem, name, file, call, partial(_solution, problem, file))
    return operator


def _own_dtype(x: Tensor) -> str | None:
    """The dtype that a tensor has in every case; None if it is that of the case."""
    return None if x.dtype == torch.float32 else str(x.dtype).removeprefix("torch.")


def _make(problem: ModelProblem, case: Case, device: torch.device) -> list[Tensor]:
    values = {name: size for name, size in case.axes.items() if isinstance(size, int)}  # all of them are axes
    tensors = [x for x in problem.inputs(values, device) if isinstance(x, Tensor)]
    return [x.to(getattr(torch, case.dtype)) if x.dtype == torch.float32 else x for x in tensors]


def _call(arguments: Mapping[str, Any], model: Callable[..., Any], tensors: Sequence[Tensor]) -> Any:
    """Call a model with tensors, and with the inputs that are numbers in their places."""
    left = iter(tensors)
    return model(*(next(left) if isinstance(x, Tensor) else x for x in arguments.values()))


def _reference(
    problem: ModelProblem,
    axes: Sequence[str],
    call: Callable[..., Any],
    outputs: Sequence[str],
    given: Mapping[str, Declared] | None,
) -> Callable[..., Any]:
    """The reference: the model in float64, or in the dtype of the case if `given` has the inputs."""

    def reference(*tensors: Tensor, dtype: str, **values: int) -> Any:
        device = tensors[0].device
        if given is None:
            model = problem.exact_model(values, dtype, device)  # here: it has the weights of the model in `dtype`
            with in_float64():
                returned = call(model, tensors)
        else:
            declared = [each.dtype or dtype for each in given.values()]
            inputs = [x.to(getattr(torch, own)) for x, own in zip(tensors, declared, strict=True)]
            returned = call(problem.model(values, dtype, device), inputs)
        return as_double(as_outputs(returned, dict.fromkeys(outputs), device))

    found = standing_for(reference, problem.module({}).Model.forward)
    keywords = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in ("dtype", *axes)]
    tensors = inspect.Parameter("tensors", inspect.Parameter.VAR_POSITIONAL)
    found.__signature__ = inspect.Signature([tensors, *keywords])  # type: ignore[attr-defined]
    return found


def _weight_bytes(problem: ModelProblem, case: Case, values: Mapping[str, int]) -> int:
    """The bytes of the parameters and buffers of the model."""
    model = problem.instance(problem.module(values).Model, values, case.dtype, torch.device("meta"))
    tensors = [*model.parameters(), *model.buffers()]
    return sum(x.numel() * x.element_size() for x in tensors)


def _add_provider(
    operator: Operator,
    problem: ModelProblem,
    name: str,
    file: Path,
    call: Callable[..., Any],
    make: Callable[[Mapping[str, int], str, torch.device], Callable[..., Any]],
) -> None:
    """Register a model. It is made at its first call, when its device is known, which is part of its build."""
    outputs = dict.fromkeys(operator.outputs)

    @operator.provider(name, factory=True, sources=[file])
    def build(case: Case) -> Callable[..., Any]:
        values = {axis: getattr(case, axis) for axis in operator.axes}
        made: list[Callable[..., Any]] = []

        def run(*tensors: Tensor) -> Any:
            if not made:
                made.append(make(values, case.dtype, tensors[0].device))
            return as_outputs(call(made[0], tensors), outputs, tensors[0].device)

        return run


def _solution(
    problem: ModelProblem, file: Path, values: Mapping[str, int], dtype: str, device: torch.device
) -> Callable[..., Any]:
    """The model of a solution. It gets the weights of the problem's model where the names and the sizes are the same; the
    others come from the same seed."""
    if file not in _solutions:
        _solutions[file] = run_file(file).ModelNew
    model: Callable[..., Any] = problem.instance(_solutions[file], values, dtype, device)
    if isinstance(model, nn.Module):
        mine, weights = model.state_dict(), problem.model(values, dtype, device).state_dict()
        model.load_state_dict(
            {name: x for name, x in weights.items() if name in mine and mine[name].shape == x.shape}, strict=False
        )
    return model


_solutions: dict[Path, Callable[..., Any]] = {}
"""The classes of the solutions of this process."""
