"""The scale at which an element's error is judged, where the operator does not give one.

An honest float32 kernel errs by some units in the last place of the largest terms that an element is made of. Where terms
cancel, the element is much smaller than they are, and the same error is many units in the last place of the element: a
layer normalisation whose result happens to be 0.004 is made of terms near 1. So the magnitude of the element is the wrong
scale.

kbench finds the scale by experiment. It computes the reference a few times over, and moves every input, and every
intermediate result that float32 cannot hold, by a random relative amount of about 2^-16. The root mean square of what
this does to an element, over 2^-16, is the magnitude of the terms that it is made of, in the way in which the reference
makes it. The scale is that, and |reference| where that is more.

What follows from it for who writes a reference:

- Write the steps out (`logsumexp(x) - x[label]` rather than one fused call): a fused call shows its result only.
- Near a jump (argmax, rounding, a comparison) the scale is large, since kernels may honestly fall on either side.
- Inputs that hold whole numbers only (labels, masks) are not moved, whatever their dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from kbench.measure.correctness.definition import Definition

TRIALS = 8
"""How often the reference is computed. The estimate of an element is below a fifth of the truth about once in 40,000
times, and it decides only where the element itself is that small too."""

STEP = 2.0**-16
"""Relative size of the moves: far above what float64 rounds, and small enough that operators are straight lines over it."""

MARGIN = 4
"""The tolerance counts so many times at an estimated scale, which is a root mean square: the worst of many elements is some
times further off, and so is a kernel that adds its terms one after the other. On an H200 torch's float32 product of two
4096 x 4096 matrices is 149 units off in the worst of 16 million elements."""

SEED = 20_240_229
"""The moves are the same in every process, so that the same inputs always have the same scale."""


def estimated(definition: Definition, reference: Tensor, exact: Sequence[Tensor]) -> Tensor:
    """The scale of every element of `reference`, the operator's at `exact` inputs; float64, of its shape.

    Raises OperatorFault when the reference fails on inputs that are moved a little.
    """
    generator = torch.Generator(reference.device).manual_seed(SEED)
    whole = [not x.is_floating_point() or bool((x == x.round()).all()) for x in exact]
    squares = torch.zeros_like(reference)
    for _ in range(TRIALS):
        moved = [x if same else _moved(x, generator) for x, same in zip(exact, whole, strict=True)]
        with _Moving(generator):
            found = definition.reference(moved, " (with inputs moved by 2^-16, to find its scale; say scale= instead)")
        change = ((found - reference) / STEP).nan_to_num(0.0, 0.0, 0.0)  # what is not finite tells nothing
        squares += change * change
    return torch.maximum((squares / TRIALS).sqrt(), reference.abs())


class _Moving(TorchDispatchMode):
    """Moves the float64 results of every torch call made under it."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._generator = generator

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        returns = func._schema.returns
        if len(returns) == 1:
            return self._result(found, returns[0])
        if len(returns) > 1:
            return tuple(self._result(each, said) for each, said in zip(found, returns, strict=True))
        return found

    def _result(self, found: Any, said: Any) -> Any:
        if not isinstance(found, Tensor) or found.dtype != torch.float64:
            return found
        if said.alias_info is None:
            return self._inexact(found)
        if said.alias_info.is_write:  # changed in place
            found.copy_(self._inexact(found))
        return found  # a view has nothing new in it

    def _inexact(self, found: Tensor) -> Tensor:
        """Moved where float32 cannot hold the value: what it can hold costs a kernel no rounding."""
        return torch.where(found.float() == found, found, _moved(found, self._generator))


def _moved(x: Tensor, generator: torch.Generator) -> Tensor:
    """Every element off by a relative amount of root mean square STEP, as a number that float32 can hold."""
    amount = torch.rand(x.shape, generator=generator, device=x.device).sub_(0.5).mul_(12**0.5 * STEP)
    return (x * (1 + amount.double())).float().double()
