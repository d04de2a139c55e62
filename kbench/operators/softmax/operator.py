"""Row-wise softmax of an (M, N) matrix, `exp(x - max) / sum(exp(x - max))` over the last dimension, forward and backward."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor
from kbench.results.case import FORWARD, Case
from kbench.results.vocabulary import EdgeInput

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch


def _reference(x: torch.Tensor) -> torch.Tensor:
    if x.numel() == 0:
        return x.clone()
    e = (x - x.detach().amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


def _tolerance(case: Case) -> float:
    """Units in the last place of float32.

    The argument of exp reaches 87 in magnitude before the result leaves float32's normal range. It is rounded twice: by the
    subtraction of the maximum, and by the multiplication with log2 e for exp2. Each rounding costs the result up to one unit
    per unit of the argument. A sequential sum of N positive terms drifts by about sqrt(N).
    """
    return 2 * 88 + 2 * math.sqrt(case.N)


def _gradient_ulps(case: Case) -> float:
    """Units in the last place of the gradient `y * (dy - sum(dy * y))`.

    Kernels compute it from y as it was saved, rounded to its dtype, and then round it: 2 units. In float16, values of y below
    6e-5 are evenly spaced, and small gradients too. There, half a step of y costs the gradient half a step times
    `|dy - sum(dy * y)|`, which stays below 6 for normal dy, and its own rounding costs half a step more.
    """
    return 4 if case.dtype == "float16" else 2


def _minus_inf_head(case: Case, x: torch.Tensor) -> tuple[torch.Tensor]:
    """Masks most of a row from its beginning, as padding on the left does. A kernel that takes the row in blocks finds no
    maximum in the first ones."""
    y = x.clone()
    y[:, : x.shape[1] - x.shape[1] // 8 - 1] = float("-inf")
    return (y,)


def _minus_inf_tail(case: Case, x: torch.Tensor) -> tuple[torch.Tensor]:
    y = x.clone()
    y[:, x.shape[1] - x.shape[1] // 4 :] = float("-inf")
    return (y,)


def _one_row(value: float) -> Callable[[Case, torch.Tensor], tuple[torch.Tensor]]:
    def fill(case: Case, x: torch.Tensor) -> tuple[torch.Tensor]:
        y = x.clone()
        middle = x.shape[0] // 2
        y[middle : middle + 1] = value  # no row if the matrix is empty
        return (y,)

    return fill


def _one_element(value: float) -> Callable[[Case, torch.Tensor], tuple[torch.Tensor]]:
    def put(case: Case, x: torch.Tensor) -> tuple[torch.Tensor]:
        y = x.clone()
        middle = x.shape[0] // 2
        y[middle : middle + 1, -1:] = value
        return (y,)

    return put


def _wide_range(case: Case, x: torch.Tensor) -> tuple[torch.Tensor]:
    """Less wide for gradients: where a probability is nearly 1, its rounding decides what is left of the gradient."""
    return (x * (30 if case.mode == FORWARD else 3),)


def _strided(case: Case, x: torch.Tensor) -> tuple[torch.Tensor]:
    """A view of a wider matrix: the row stride is not N, and rows after the first are not aligned to 16 bytes."""
    wide = x.new_zeros(x.shape[0], x.shape[1] + 3)
    wide[:, : x.shape[1]] = x
    return (wide[:, : x.shape[1]],)


softmax = Operator(
    "softmax",
    axes=("M", "N"),
    inputs={"x": Tensor("M", "N", ulps=_gradient_ulps)},
    outputs={"y": Tensor("M", "N")},
    reference=_reference,
    gradients=("x",),
    tolerance=_tolerance,
    scale=lambda case, reference, x: reference,  # all terms are positive: nothing cancels
    output_ulps=1,
    rows="M",
    model_axes={"M": "tokens", "N": "vocabulary"},  # the probabilities of the next token
    edges={
        EdgeInput.LARGE_OFFSET: lambda case, x: (x + 1e4,),
        EdgeInput.ASCENDING_ROWS: lambda case, x: (x.sort(-1).values,),
        EdgeInput.WIDE_RANGE: _wide_range,
        EdgeInput.MINUS_INF_HEAD: _minus_inf_head,
        EdgeInput.MINUS_INF_TAIL: _minus_inf_tail,
        EdgeInput.MINUS_INF_ROW: _one_row(float("-inf")),
        EdgeInput.PLUS_INF: _one_element(float("inf")),
        EdgeInput.NAN: _one_element(float("nan")),
        EdgeInput.STRIDED_ROWS: _strided,
        EdgeInput.ODD_COLUMNS: lambda case, x: (x[:, : x.shape[1] - 1 + x.shape[1] % 2].contiguous(),),
        EdgeInput.ONE_ROW: lambda case, x: (x[:1],),
        EdgeInput.ONE_COLUMN: lambda case, x: (x[:, :1].contiguous(),),
        EdgeInput.TRANSPOSED: lambda case, x: (x.t().contiguous().t(),),
        EdgeInput.NO_ROWS: lambda case, x: (x[:0],),
        EdgeInput.NO_COLUMNS: lambda case, x: (x[:, :0],),
    },
)
