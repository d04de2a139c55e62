# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Cross-entropy of logits (M, V) and integer labels, with label smoothing, forward and backward. Each row has a loss."""

from __future__ import annotations

import math
from functools import partial

import torch

from kbench.contract.fills import integers
from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor
from kbench.kernels import torch_fused, whole_rows
from kbench.results.case import Case

try:
    import triton
    import triton.language as tl
except ImportError:  # then kbench reports the provider `triton` as unavailable
    triton = None


def _reference(logits: torch.Tensor, labels: torch.Tensor, *, smoothing: float) -> torch.Tensor:
    top = logits.detach().amax(-1, keepdim=True)
    loss = (logits - top).exp().sum(-1).log() + top[:, 0] - (1 - smoothing) * logits.gather(1, labels[:, None])[:, 0]
    return loss - smoothing * logits.mean(-1) if smoothing else loss


cross_entropy = Operator(
    "cross_entropy",
    axes=("M", "V"),
    inputs={  # the tolerance is that of the gradient: a sequential sum of V terms drifts by up to 2 * sqrt(V) units
        "logits": Tensor("M", "V", tolerance=lambda case: 8 + 2 * math.sqrt(case.V)),
        "labels": Tensor("M", dtype="int64", fill=integers("V")),
    },
    outputs={"loss": Tensor("M", dtype="float32")},
    scalars={"smoothing": 0.0},
    reference=_reference,
    gradients=("logits",),
    rows="M",
    model_axes={"M": "tokens", "V": "vocabulary"},
    # The logarithm turns the drift of the sum into units in the last place of 1. Those of the loss are larger, about 8 times if
    # V is large, and kbench allows 4 times this number. If it were larger, a kernel could leave out a block of V unnoticed.
    tolerance=lambda case: 4 + math.sqrt(case.V) / 16,
    edges={
        "large offset": lambda case, x, labels: (x + 1e3, labels),
        "ascending rows": lambda case, x, labels: (x.sort(-1).values, labels),
        "column of -inf": lambda case, x, labels: (x.index_fill(1, labels[:1], -math.inf), labels),
        "one NaN": lambda case, x, labels: (x.flatten().index_fill(0, labels[:1], math.nan).view_as(x), labels),
        "strided rows": lambda case, x, labels: (torch.nn.functional.pad(x, (0, 3))[:, :-3], labels),
        "transposed": lambda case, x, labels: (x.t().contiguous().t(), labels),
        "no rows": lambda case, x, labels: (x[:0], labels[:0]),
    },
)


@cross_entropy.provider("torch-native", label="torch.nn.functional.cross_entropy", sources=whole_rows.SOURCES)
def torch_native(logits: torch.Tensor, labels: torch.Tensor, *, smoothing: float) -> torch.Tensor:
    """In float32: torch would round the loss of 16-bit logits to 16 bits."""
    return torch.nn.functional.cross_entropy(logits.float(), labels, reduction="none", label_smoothing=smoothing)


@cross_entropy.provider("torch-eager", label="torch (eager, naive)")
def torch_eager(logits: torch.Tensor, labels: torch.Tensor, *, smoothing: float) -> torch.Tensor:
    return _reference(logits.float(), labels, smoothing=smoothing)


@cross_entropy.provider("torch-compile", label="torch.compile", factory=True)
def torch_compile(case: Case, *, smoothing: float) -> partial[torch.Tensor]:
    return partial(torch_fused.compiled(torch_eager), smoothing=smoothing)


if triton:

    @triton.jit
    def loss_rows(loss, lse, x, labels, x_stride, V, smoothing, SMOOTH: tl.constexpr, BLOCK: tl.constexpr):
        """One program per row reads the row once, with a running maximum and a running sum. Grid: M."""
        row = tl.program_id(0).to(tl.int64)
        top, total, plain = tl.full((), -3.4e38, tl.float32), tl.zeros((), tl.float32), tl.zeros((), tl.float32)
        for start in range(0, V, BLOCK):
            columns = start + tl.arange(0, BLOCK)
            v = tl.load(x + row * x_stride + columns, mask=columns < V, other=float("-inf")).to(tl.float32)
            before, top = top, tl.maximum(top, tl.max(v, 0))
            total = total * tl.exp(before - top) + tl.sum(tl.exp(v - top), 0)
            plain += tl.sum(tl.where(columns < V, v, 0.0), 0)
        log_sum = tl.log(total) + top
        found = log_sum - (1 - smoothing) * tl.load(x + row * x_stride + tl.load(labels + row)).to(tl.float32)
        tl.store(lse + row, log_sum)
        tl.store(loss + row, found - smoothing * (plain / V) if SMOOTH else found)

    @triton.jit
    def gradient_blocks(dx, d_loss, x, labels, lse, x_stride, V, smoothing, BLOCK: tl.constexpr):
        """The softmax less the smoothed label, one program per block of a row. Grid: M, blocks of a row."""
        row, columns = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x + row * x_stride + columns, mask=columns < V, other=0.0).to(tl.float32)
        wanted = tl.where(columns == tl.load(labels + row), 1 - smoothing, 0.0) + smoothing / V
        gradient = (tl.exp(v - tl.load(lse + row)) - wanted) * tl.load(d_loss + row)
        tl.store(dx + row * V + columns, gradient, mask=columns < V)


def triton_saving(x, labels, *, smoothing: float, block: int = 4096) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss, and the logarithm of each row's sum for the backward pass."""
    (M, V), x, saved = x.shape, whole_rows.dense(x), x.new_empty(2, x.shape[0], dtype=torch.float32)
    if M:
        loss_rows[(M,)](*saved, x, labels, x.stride(0), V, smoothing, smoothing != 0, block, num_warps=8)
    return saved[0], saved[1]


@cross_entropy.provider("triton", label="Triton", requires="triton")
def triton_rows(x, labels, *, smoothing: float, block: int = 4096) -> torch.Tensor:
    return triton_saving(x, labels, smoothing=smoothing, block=block)[0]


@cross_entropy.backward("triton", saves=triton_saving)
def triton_backward(d_loss, x: torch.Tensor, labels, lse, *, smoothing: float, block: int = 4096) -> torch.Tensor:
    (M, V), x, dx = x.shape, whole_rows.dense(x), x.new_empty(x.shape)
    if M:
        launch = gradient_blocks[(M, triton.cdiv(V, block))]
        launch(dx, d_loss, x, labels, lse, x.stride(0), V, smoothing, block, num_warps=8)
    return dx
