"""KernelBench problems: a Python file with a class `Model` and the functions `get_inputs` and `get_init_inputs`.

Format: KernelBench, its README and `src/kernelbench/eval.py`. A solution is a file with a class `ModelNew`, which is made from
the same arguments.

The operator takes what `get_inputs` returns, in the sizes that the file states. The weights are no inputs: they are made once
per case, from the same seed for all providers. Only workers import this module: it runs other people's code.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from kbench.contract.operator import Operator
from kbench.contract.origin import registering_for
from kbench.contract.tensor import Tensor as Declared
from kbench.contract.tensor import total_bytes
from kbench.files import source_text
from kbench.results.case import Case
from kbench.sources import SourceFault, model_files, model_solutions
from kbench.sources.problems.foreign_code import fault_of, function_of, run_file
from kbench.sources.problems.reference import (
    REFERENCE,
    Call,
    OwnTolerance,
    allows_float64,
    as_outputs,
    filled_together,
    own_name,
    problem_operator,
    seeded,
)

MODEL_SEED = 42
"""Of the weights. KernelBench takes the same."""

TOLERANCES = {
    "float32": OwnTolerance(1e-4, 1e-4),
    "bfloat16": OwnTolerance(1e-2, 1e-2),
    "float16": OwnTolerance(1e-2, 1e-2),
}
"""KernelBench's own, for models that do not run in float64, by the dtypes that cases may have."""

Make = Callable[[str, torch.device], Callable[..., Any]]
"""Makes a model of a dtype on a device."""


def load(path: Path, solutions: Sequence[Path] = ()) -> dict[str, Any]:
    """Register the operator of a problem. Returns the content of its config. Raises SourceFault."""
    for file in solutions:
        if "ModelNew" not in source_text(file):  # it may also be imported or assigned
            raise SourceFault(str(file), "has no class ModelNew; a solution of a KernelBench problem defines it")
    beside = model_solutions(path)
    files = model_files(path)
    files = [file for file in files if file not in beside] or files
    if len(files) != 1:
        example = f"; name one of them, for example {files[0].name}" if files else ""
        raise SourceFault(str(path), f"holds {len(files)} problems{example}")
    torch.backends.cudnn.allow_tf32 = False  # a float32 convolution is judged against float64
    problem = Problem(files[0], run_file(files[0]))
    try:
        operator = _operator(problem)
        _add_provider(operator, problem, REFERENCE, problem.file, problem.model)
        for file in dict.fromkeys(file.resolve() for file in (*beside, *solutions)):
            name = file.stem if file != problem.file.resolve() else "ModelNew"
            with registering_for(str(file)):
                _add_provider(operator, problem, name, file, _solution(problem, file))
    except ValueError as error:  # a name that kbench does not allow, or that is taken
        raise SourceFault(str(problem.file), str(error)) from None
    return {"operator": operator.name, "sweep": [{"dtype": "float32"}]}


@dataclass(frozen=True, eq=False)
class Problem:
    """A problem file, after its code has run. Raises SourceFault."""

    file: Path
    module: ModuleType

    def __post_init__(self) -> None:
        for name in ("Model", "get_inputs", "get_init_inputs"):
            function_of(self.module, name, str(self.file))

    def inputs(self, device: torch.device) -> list[Any]:
        """What `get_inputs` returns. The caller seeds torch."""
        with torch.device(device):
            return self._moved("get_inputs", self.module.get_inputs(), None, device)

    def instance(self, model: Callable[..., Any], dtype: str, device: torch.device) -> Any:
        """A model of a class, made as KernelBench makes it: the seed is set before its arguments, and before itself."""
        with torch.device(device):
            with seeded(MODEL_SEED, device):
                arguments = self.module.get_init_inputs()
            with seeded(MODEL_SEED, device):
                made_model = model(*self._moved("get_init_inputs", arguments, dtype, device))
        if isinstance(made_model, nn.Module):
            made_model = made_model.to(device, getattr(torch, dtype)).requires_grad_(False)
        return made_model

    @lru_cache(maxsize=1)  # noqa: B019  models may be large, and there is one problem
    def model(self, dtype: str, device: torch.device) -> nn.Module:
        model: nn.Module = self.instance(self.module.Model, dtype, device)
        return model

    def _moved(self, maker: str, values: Any, dtype: str | None, device: torch.device) -> list[Any]:
        """Arguments on a device, which the function `maker` returned. Floating-point tensors get `dtype`, if one is given."""
        if not isinstance(values, (list, tuple)):
            raise SourceFault(str(self.file), f"{maker} returns {type(values).__name__}; it must return a list")
        return [_converted(x.to(device), dtype) if isinstance(x, Tensor) else x for x in values]

    @cached_property
    def traced(self) -> tuple[dict[str, Any], list[Tensor]]:
        """The inputs and the outputs of a call, without memory if the model does not look at values. An input that is no tensor
        is a constant argument."""
        # it looks at values, or has a fault: the call with values says so
        with suppress(Exception, SystemExit):
            return self._trace(torch.device("meta"))
        try:
            return self._trace(torch.device("cpu"))
        except BaseException as error:  # noqa: BLE001  it may raise anything, SystemExit included
            raise fault_of(error, str(self.file), "the model") from None

    def _trace(self, device: torch.device) -> tuple[dict[str, Any], list[Tensor]]:
        model = self.instance(self.module.Model, "float32", device)
        with seeded(MODEL_SEED, device):
            inputs = self.inputs(device)
        with torch.no_grad(), torch.device(device):
            returned = model(*inputs)
        outputs = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        self._accept("get_inputs", inputs, (Tensor, int, float), "tensors and numbers")
        self._accept("forward", outputs, (Tensor,), "tensors")
        return dict(zip(self._names(len(inputs)), inputs, strict=True)), outputs

    def _accept(self, function: str, values: Sequence[Any], types: tuple[type, ...], allowed: str) -> None:
        if refused := next((type(x).__name__ for x in values if not isinstance(x, types)), ""):
            raise SourceFault(str(self.file), f"{function} returns {refused}; kbench takes {allowed} only")

    def _names(self, count: int) -> list[str]:
        """Names for the inputs: those of the arguments of `forward`."""
        parameters = list(inspect.signature(self.module.Model.forward).parameters.values())[1:]
        named = [
            parameter.name
            for parameter in parameters
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        ]
        return named[:count] if len(named) >= count else [f"input_{number}" for number in range(count)]

    def call(self, model: Callable[..., Any], tensors: Sequence[Tensor]) -> Any:
        """Call a model with tensors, and with the inputs that are numbers in their places."""
        remaining = iter(tensors)
        return model(*(next(remaining) if isinstance(x, Tensor) else x for x in self.traced[0].values()))

    def code(self, dtype: str, device: torch.device, exact: bool) -> Call:
        """The model of a case. For float64, it has the weights that it has in `dtype`."""
        model = _exact_model(self, dtype, device) if exact else self.model(dtype, device)
        return lambda tensors, values: self.call(model, tensors)


def _solution(problem: Problem, file: Path) -> Make:
    """Makes the model of a file with a class `ModelNew`, which is run when the first model is made. It has the weights of the
    problem's model where the names and the sizes are the same. The others come from the same seed."""

    @cache
    def model_class() -> Callable[..., Any]:
        return function_of(run_file(file), "ModelNew", str(file))

    def make(dtype: str, device: torch.device) -> Callable[..., Any]:
        model: Callable[..., Any] = problem.instance(model_class(), dtype, device)
        if isinstance(model, nn.Module):
            own_weights, weights = model.state_dict(), problem.model(dtype, device).state_dict()
            fitting = {
                name: x for name, x in weights.items() if name in own_weights and own_weights[name].shape == x.shape
            }
            model.load_state_dict(fitting, strict=False)
        return model

    return make


@lru_cache(maxsize=1)
def _exact_model(problem: Problem, dtype: str, device: torch.device) -> nn.Module:
    """The model in float64, with the weights that it has in `dtype`."""
    exact = copy.deepcopy(problem.model(dtype, device)).double()
    for module in exact.modules():
        # plain attributes, such as the first state of a recurrent network
        for name, value in vars(module).items():
            if isinstance(value, Tensor):
                setattr(module, name, _converted(value, "float64"))
    return exact


def _operator(problem: Problem) -> Operator:
    arguments, returned = problem.traced
    tensors = {name: x for name, x in arguments.items() if isinstance(x, Tensor)}
    make = partial(_inputs, problem)
    fills = filled_together(make, len(tensors), problem.module.get_inputs)
    inputs = {
        name: Declared(*x.shape, dtype=_own_dtype(x), fill=fill)
        for (name, x), fill in zip(tensors.items(), fills, strict=True)
    }
    names = ["output"] if len(returned) == 1 else [f"output_{number}" for number in range(len(returned))]
    outputs = {name: Declared(*x.shape, dtype=_own_dtype(x)) for name, x in zip(names, returned, strict=True)}
    name = own_name(problem.file.stem)
    exact = allows_float64(problem.code, inputs.values(), make, Case(name, {}, "float32"))
    return problem_operator(
        name,
        problem.code,
        problem.module.Model.forward,
        axes=(),
        inputs=inputs,
        outputs=outputs,
        tolerance_of=None if exact else lambda case: TOLERANCES[case.dtype],
        bytes=lambda case: total_bytes([*inputs.values(), *outputs.values()], case) + _weight_bytes(problem, case),
        dtypes=tuple(TOLERANCES),
        source=source_text(problem.file),
    )


def _own_dtype(x: Tensor) -> str | None:
    """The dtype that a tensor has in every case; None if it is that of the case."""
    return None if x.dtype == torch.float32 else str(x.dtype).removeprefix("torch.")


def _inputs(problem: Problem, case: Case, device: torch.device) -> list[Tensor]:
    tensors = [x for x in problem.inputs(device) if isinstance(x, Tensor)]
    return [x.to(getattr(torch, case.dtype)) if x.dtype == torch.float32 else x for x in tensors]


def _weight_bytes(problem: Problem, case: Case) -> int:
    """The bytes of the parameters and buffers of the model."""
    model = problem.instance(problem.module.Model, case.dtype, torch.device("meta"))
    return sum(x.nbytes for x in (*model.parameters(), *model.buffers()))


def _add_provider(operator: Operator, problem: Problem, name: str, file: Path, make: Make) -> None:
    """Register a model. It is made at its first call, when its device is known, which is part of its build."""

    @operator.provider(name, factory=True, sources=[file])
    def build(case: Case) -> Callable[..., Any]:
        models: list[Callable[..., Any]] = []

        def run(*tensors: Tensor) -> Any:
            if not models:
                models.append(make(case.dtype, tensors[0].device))
            return as_outputs(problem.call(models[0], tensors), operator.outputs, tensors[0].device)

        return run


def _converted(x: Tensor, dtype: str | None) -> Tensor:
    return x.to(getattr(torch, dtype)) if dtype and x.is_floating_point() else x
