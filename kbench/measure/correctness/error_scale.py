"""The scale at which the error of an element is judged, if the operator gives none.

A correct float32 kernel is off by some units in the last place of the largest terms of an element. If terms cancel, the element
is much smaller than its terms: a layer normalisation computes a result of 0.004 from terms near 1. So the magnitude of the
element is the wrong scale.

kbench finds the scale by experiment. It computes the reference several times. Each time it moves every input, and every
intermediate result that float32 cannot hold, by a random relative amount of about 2^-16. The root mean square of the changes
of an element, divided by 2^-16, is the magnitude of its terms. The scale is the larger of this and |reference|.

For the author of a reference this means:

- Write the steps out (`logsumexp(x) - x[label]`, not one fused call): kbench sees only the result of a fused call. GELU and
  the backward passes of softmax and log_softmax are exceptions (see `_gelu` and `_softmax_gradient`).
- Near a jump (argmax, rounding, a comparison) the scale is large, because a correct kernel may fall on either side.
- Inputs that hold only whole numbers (labels, masks) are not moved, whatever their dtype.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.util import find_spec
from subprocess import SubprocessError
from typing import Any

import torch
from torch import Tensor

from kbench.measure.correctness.definition import Definition, exactly
from kbench.measure.correctness.memory import spanned_elements
from kbench.measure.machine.dynamo import OperatorMode, writes_of

TRIALS = 8
"""How often the reference is computed. The estimate for an element is below a fifth of the truth about once in 40,000 cases.
It then matters only if the element itself is as small."""

SECOND_TRIALS = 12, 64
"""How often for elements that fail by the first estimate, if they are few: 12 times, and 64 times if some of them still fail.
The last estimate is below half of the truth about once in 10^10 cases."""

STEP = 2.0**-16
"""Relative size of the moves: far above the rounding of float64, and small enough that operators are linear over it."""

LARGEST_MOVE = 12**0.5 / 2 * STEP
"""The largest move. Moves are evenly distributed, so that their root mean square is STEP."""

SLICE_ELEMENTS = 2**25
"""Tensors with more elements are compared in slices, so that temporaries are small beside them."""

LARGE, PART = 2**20, 512
"""On a GPU, a kernel moves results of at least so many elements in one pass, and four parts of so many in a program."""

MOVES_SEED = 20_240_229
"""The moves are the same in every process, so that the same inputs always have the same scale. Another number of trials has
another seed: a second estimate would otherwise repeat the moves of the first."""


def mean_squares(
    definition: Definition,
    references: Sequence[Tensor],
    inputs: Sequence[Tensor],
    needed: Sequence[bool],
    trials: int,
) -> list[Tensor | None]:
    """For each output that is `needed`: the mean square of the changes of its elements, divided by the square of the moves.

    `references` are the outputs for the inputs. They and the results are float64 and have the shapes of the outputs; None for
    an output that is not needed. Raises OperatorFault if the reference fails on inputs that have been moved.
    """
    moving = _Moving(torch.Generator(inputs[0].device).manual_seed(MOVES_SEED + trials - TRIALS))
    whole = [
        not x.is_floating_point() or all(bool((y == y.round()).all()) for part in slices_of(x) for y in exactly(part))
        for x in inputs
    ]
    squares = [torch.zeros_like(r) if is_needed else None for r, is_needed in zip(references, needed, strict=True)]

    def add_trial() -> None:
        """Add the squares of the changes. The tensors of one trial are freed before the next begins."""
        pairs = zip(inputs, whole, strict=True)
        moved = [exact if fixed else moving.moved(exact) for x, fixed in pairs for exact in exactly([x])]
        with moving:
            outputs = definition.expected(moved, _where(definition))
        del moved
        for square, *values in zip(squares, outputs, references, strict=True):
            if square is not None:
                for total, value, reference in slices_of(square, *values):
                    # values that are not finite give no estimate
                    change = (value - reference).div_(STEP).nan_to_num_(0.0, 0.0, 0.0)
                    total.addcmul_(change, change, value=1 / trials)

    for _ in range(trials):
        add_trial()
    return squares


def slices_of(*tensors: Tensor) -> Iterable[tuple[Tensor, ...]]:
    """Slices of tensors of the same shape."""
    shape, count = tensors[0].shape, -(-tensors[0].numel() // SLICE_ELEMENTS)
    if count < 2:
        return [tensors]
    along = 0 if shape[0] >= count else shape.index(max(shape))
    return zip(*(x.tensor_split(count, along) for x in tensors), strict=True)


def _where(definition: Definition) -> str:
    """What a message about a reference that fails here adds, with scale= where that helps."""
    avoid = "; declare scale= to avoid this" if [output.gradient for output in definition.outputs] == [False] else ""
    return f" (on inputs changed by 2^-16 of their values, to estimate the scale of errors{avoid})"


_ADD = torch.ops.aten.add.Tensor
_GELU = torch.ops.aten.gelu.default
_SOFTMAX_BACKWARD = torch.ops.aten._softmax_backward_data.default
_LOG_SOFTMAX_BACKWARD = torch.ops.aten._log_softmax_backward_data.default


class _Moving(OperatorMode):
    """A context in which the float64 results of every torch call are moved."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self._generator, self._launches = generator, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (_SOFTMAX_BACKWARD, _LOG_SOFTMAX_BACKWARD) and args[0].dtype == torch.float64:
            return self._softmax_gradient(func, *args[:3])
        if func is _GELU and args[0].dtype == torch.float64:
            with self:
                return _gelu(*args, **(kwargs or {}))
        result = func(*args, **(kwargs or {}))
        # outside of a backward pass, the number of the present one is -1
        if func is _ADD and result.dtype == torch.float64 and torch._C._current_graph_task_id() != -1:
            return self._sum_of_gradients(result, args[0])
        written = writes_of(func)
        if len(written) == 1:
            return self._result(result, written[0])
        return tuple(map(self._result, result, written)) if written else result

    def _softmax_gradient(self, func: Any, gradient: Tensor, output: Tensor, dimension: int) -> Tensor:
        """The gradient of softmax, `p * (g - sum(g * p))`, or of log_softmax, `g - p * sum(g)`, with its sum moved.

        Where one p is 1, as in the first row of causal attention, the terms cancel exactly. The fused call then returns 0
        however its inputs are moved. In a kernel p and the sum are rounded, and the difference is not quite 0.
        """
        if func is _SOFTMAX_BACKWARD:
            total = self.moved((gradient * output).sum(dimension, keepdim=True))
            return self._inexact(output * (gradient - total))
        total = self.moved(gradient.sum(dimension, keepdim=True))
        return self._inexact(gradient - output.exp() * total)

    def _sum_of_gradients(self, total: Tensor, term: Tensor) -> Tensor:
        """A sum in the backward pass, moved by the size of its terms where they cancel exactly.

        That happens in a softmax that is written out, as it does in the fused one: where one weight is 1, two paths bring the
        same gradient with opposite signs. Whole numbers cancel in a kernel, too.
        """
        if self._move_in_place(total, term):
            return total
        cancelled = (total == 0) & (term != term.round())
        if not cancelled.any():
            return self._inexact(total)
        return torch.where(cancelled, self.moved(term) - term, self._inexact(total))

    def _result(self, result: Any, written: bool | None) -> Any:
        if written is False or not isinstance(result, Tensor) or result.dtype != torch.float64:
            return result
        inexact = self._inexact(result)
        return result.copy_(inexact) if written and inexact is not result else inexact

    def _inexact(self, values: Tensor) -> Tensor:
        """Move, perhaps in place, the values that float32 cannot hold; others cost a kernel no rounding."""
        if self._move_in_place(values):
            return values
        exact = values.float() == values
        return torch.where(exact, values, self.moved(values))

    def moved(self, x: Tensor) -> Tensor:
        """Every element moved by a share with root mean square STEP, to a number that float32 can hold."""
        moved = torch.empty_like(x).uniform_(1 - LARGEST_MOVE, 1 + LARGEST_MOVE, generator=self._generator)
        moved.mul_(x)  # in place: the inputs of a large case may be a good part of the memory
        for (part,) in slices_of(moved):
            part.copy_(part.float())
        return moved

    def _move_in_place(self, values: Tensor, terms: Tensor | None = None) -> bool:
        """Move large values on a GPU in place, in one pass. Returns False if torch must move them."""
        count = values.numel()
        if values.device.type != "cuda" or count < LARGE or spanned_elements(values) > count:
            return False
        if terms is not None and (terms.shape, terms.stride()) != (values.shape, values.stride()):
            return False
        kernel = _kernel()
        if kernel is None:
            return False
        self._launches += 1
        seed = (self._generator.initial_seed() << 32) + self._launches
        grid = (-(-count // (4 * PART)),)
        kernel[grid](
            values, values if terms is None else terms, seed, count, LARGEST_MOVE * 2**-31, terms is not None, PART
        )
        return True


def _gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """GELU step by step. For negative x, 1 and the other term cancel, so a right kernel is off by units of x / 2."""
    if approximate == "tanh":
        return x / 2 * (1 + torch.tanh((2 / math.pi) ** 0.5 * (x + 0.044715 * x**3)))
    return x / 2 * (1 + torch.erf(x / 2**0.5))


@cache
def _kernel() -> Any:
    """The kernel that moves values; None where Triton does not work, or in its interpreter."""
    if os.environ.get("TRITON_INTERPRET") == "1" or not find_spec("triton"):
        return None
    from triton.errors import TritonError

    from kbench.measure.correctness.moves_kernel import move

    value = torch.ones(1, dtype=torch.float64, device="cuda")
    try:
        move[(1,)](value, value, MOVES_SEED << 32, 1, LARGEST_MOVE * 2**-31, False, PART)
    except (TritonError, RuntimeError, OSError, SubprocessError):
        return None
    return move
