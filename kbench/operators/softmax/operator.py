"""Row-wise softmax of an (M, N) matrix, `exp(x - max) / sum(exp(x - max))` over the last dimension, forward and backward."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor
from kbench.kernels.libraries import liger_rows, quack_matrix, quack_reads
from kbench.kernels.torch_fused import add_compiled, add_scripted
from kbench.results.case import FORWARD, Case
from kbench.results.vocabulary import EdgeInput


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


def _in_the_middle_row(value: float, columns: slice) -> Callable[[Case, torch.Tensor], tuple[torch.Tensor]]:
    def put(case: Case, x: torch.Tensor) -> tuple[torch.Tensor]:
        y = x.clone()
        middle = x.shape[0] // 2
        y[middle : middle + 1, columns] = value  # no row if the matrix is empty
        return (y,)

    return put


def _wide_range(case: Case, x: torch.Tensor) -> tuple[torch.Tensor]:
    """Less wide for gradients: where a probability is nearly 1, its rounding decides what is left of the gradient."""
    return (x * (30 if case.mode == FORWARD else 3),)


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
        EdgeInput.MINUS_INF_ROW: _in_the_middle_row(-math.inf, slice(None)),
        EdgeInput.PLUS_INF: _in_the_middle_row(math.inf, slice(-1, None)),
        EdgeInput.NAN: _in_the_middle_row(math.nan, slice(-1, None)),
        # the row stride is not N, and rows after the first are not aligned to 16 bytes
        EdgeInput.STRIDED_ROWS: lambda case, x: (torch.nn.functional.pad(x, (0, 3))[:, :-3],),
        EdgeInput.ODD_COLUMNS: lambda case, x: (x[:, : x.shape[1] - 1 + x.shape[1] % 2].contiguous(),),
        EdgeInput.ONE_ROW: lambda case, x: (x[:1],),
        EdgeInput.ONE_COLUMN: lambda case, x: (x[:, :1].contiguous(),),
        EdgeInput.TRANSPOSED: lambda case, x: (x.t().contiguous().t(),),
        EdgeInput.NO_ROWS: lambda case, x: (x[:0],),
        EdgeInput.NO_COLUMNS: lambda case, x: (x[:, :0],),
    },
)


def _float32_only(case: Case) -> str | None:
    if case.dtype == "float32":
        return None
    return f"rounds to {case.dtype} after each of its five steps, which costs more than one unit in the last place"


def _five_passes(case: Case) -> int:
    """Elements read and written: max MN, M; subtract MN + M, MN; exp MN, MN; sum MN, M; divide MN + M, MN."""
    return int(8 * case.M * case.N + 4 * case.M) * case.itemsize


@softmax.provider("torch-eager", supports=_float32_only, moved_bytes=_five_passes)
def torch_eager(x: torch.Tensor) -> torch.Tensor:
    """Five calls, each a pass over memory. Shows what fusion saves."""
    if x.numel() == 0:
        return torch.empty_like(x)
    row_max = x.detach().amax(-1, keepdim=True)  # its gradient is zero
    shifted = x - row_max
    numerator = shifted.exp()
    denominator = numerator.sum(-1, keepdim=True)
    return numerator / denominator


@softmax.provider("torch-native")
def torch_native(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def naive(x: torch.Tensor) -> torch.Tensor:
    """The function that torch.jit.script and torch.compile fuse. It computes in float32, so a 16-bit result is rounded once,
    at the end. The gradient of the maximum is zero. Computed, it is a sum that cancels, which costs time and digits."""
    if x.numel() == 0:
        return torch.empty_like(x)
    v = x.float()
    e = (v - v.detach().amax(-1, keepdim=True)).exp()
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)


add_scripted(softmax, naive)
add_compiled(softmax, naive)


@softmax.provider("liger", requires="liger_kernel", supports=liger_rows)
def liger(x: torch.Tensor) -> torch.Tensor:
    """Liger-Kernel's Triton softmax. Copies an input that is not contiguous."""
    from liger_kernel.ops.softmax import LigerSoftmaxFunction

    if not x.numel():
        return torch.empty_like(x)
    return LigerSoftmaxFunction.apply(x)


@softmax.provider(
    "quack",
    requires="quack",
    devices=("cuda",),
    supports=quack_reads("N", 16),
)
def quack(x: torch.Tensor) -> torch.Tensor:
    """QuACK's CuTe-DSL softmax, forward only. Compiles on the first use of each (dtype, N)."""
    from quack.softmax import softmax_fwd

    if not x.numel():
        return torch.empty_like(x)
    return softmax_fwd(quack_matrix(x))


@softmax.backward("quack", saves=["y"])
def quack_backward(dy: torch.Tensor, x: torch.Tensor, saved: tuple[torch.Tensor]) -> torch.Tensor:
    from quack.softmax import softmax_bwd

    (y,) = saved
    if not y.numel():
        return torch.empty_like(y)
    return softmax_bwd(dy, y)
