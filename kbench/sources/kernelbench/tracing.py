"""Finds out what a problem takes and returns, by calling its model on tensors without memory."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from kbench.results.names import taken
from kbench.sources.fault import SourceFault
from kbench.sources.kernelbench.model_file import MODEL_SEED, ModelProblem, converted
from kbench.sources.problems.drawn_together import seeded
from kbench.sources.problems.exact import allows_float64
from kbench.sources.problems.fitted_sizes import FittedSizes, fit_sizes
from kbench.sources.problems.foreign_code import blamed


@dataclass(frozen=True)
class Traced:
    """The tensors of one call, without memory where that is possible. An input that is no tensor is a constant argument."""

    inputs: list[Any]
    outputs: list[Tensor]

    @property
    def tensors(self) -> list[Tensor]:
        return [*(x for x in self.inputs if isinstance(x, Tensor)), *self.outputs]

    @property
    def kinds(self) -> list[tuple[int, torch.dtype]]:
        return [(x.dim(), x.dtype) for x in self.tensors]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(size for x in self.tensors for size in x.shape)


def _trace(problem: ModelProblem, values: Mapping[str, int], device: str) -> Traced:
    """Call the model once. Raises SourceFault, and whatever the problem raises."""
    place = torch.device(device)
    model = problem.instance(problem.module(values).Model, values, "float32", place)
    with seeded(MODEL_SEED, place):
        inputs = problem.inputs(values, place)
    with torch.no_grad(), torch.device(place):
        returned = model(*inputs)
    outputs = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    for kind, found in (("get_inputs", inputs), ("forward", outputs)):
        for x in found:
            if not isinstance(x, (Tensor, int, float, bool)) or (kind == "forward" and not isinstance(x, Tensor)):
                allowed = "tensors and numbers" if kind == "get_inputs" else "tensors"
                raise SourceFault(str(problem.file), f"{kind} returns {type(x).__name__}; kbench takes {allowed} only")
    return Traced(inputs, outputs)


MOST_STEPS = 2000
"""A model with more calls of torch gets no axes: a network that is unrolled over time takes seconds for each trace."""


class _Counting(TorchDispatchMode):
    """A context that counts the calls of torch."""

    steps = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.steps += 1
        return func(*args, **(kwargs or {}))


def trace_model(problem: ModelProblem) -> tuple[Traced, FittedSizes]:
    """A call of the model, and the constants that are axes. Raises SourceFault."""
    problem.module({})
    device = "meta"
    counting = _Counting()  # type: ignore[no-untyped-call]
    try:
        with counting:
            base = _trace(problem, {}, device)
    except (Exception, SystemExit):  # noqa: BLE001  the code looks at values, or has a fault: then the call with values says so
        device = "cpu"
        with blamed(str(problem.file), "the model"):
            base = _trace(problem, {}, device)
    if not any(isinstance(x, Tensor) for x in base.inputs):
        raise SourceFault(
            str(problem.file),
            "get_inputs returns no tensor; kbench needs at least one tensor as input when it calls a model",
        )

    def sizes(values: Mapping[str, int]) -> tuple[int, ...] | None:
        try:
            found = _trace(problem, values, device) if values else base
        except (Exception, SystemExit):  # noqa: BLE001  the problem does not accept these values; any of its code may say so
            return None
        return found.sizes if found.kinds == base.kinds else None

    names = argument_names(problem, base)
    allowed = {name: value for name, value in problem.constants.items() if not taken(name) and name not in names}
    quick = device == "meta" and counting.steps <= MOST_STEPS  # calls with values take too long
    free = allowed if quick else {}
    return base, fit_sizes(free, sizes)


def argument_names(problem: ModelProblem, base: Traced) -> list[str]:
    """Names for the inputs: those of the arguments of `forward`."""
    parameters = list(inspect.signature(problem.module({}).Model.forward).parameters.values())[1:]
    named = [each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    count = len(base.inputs)
    return named[:count] if len(named) >= count else [f"input_{number}" for number in range(count)]


def model_allows_float64(problem: ModelProblem, base: Traced) -> bool:
    """Whether the model computes in float64."""

    def call(*inputs: Any) -> Any:
        device = next(x.device for x in inputs if isinstance(x, Tensor))
        return problem.instance(problem.module({}).Model, {}, "float64", device)(*inputs)

    def values() -> list[Any]:
        place = torch.device("cpu")
        with seeded(MODEL_SEED, place):
            return [converted(x, "float64") if isinstance(x, Tensor) else x for x in problem.inputs({}, place)]

    return allows_float64(call, [partial(_like, x) for x in base.inputs], values)


def _like(x: Any, device: str) -> Any:
    """A float64 tensor as large as another, or the same number."""
    return torch.empty_like(converted(x, "float64"), device=device) if isinstance(x, Tensor) else x
