"""Cross-entropy in Triton: out of place, and with the gradients of the logits over the logits. The kernels are in
`triton_kernels.py`, and `triton_launches.py` chooses among them. Importing it does not need Triton."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbench.contract.provider import Unsupported
from kbench.kernels.libraries import same_as
from kbench.kernels.triton_launch import Launcher
from kbench.kernels.whole_rows import dense, dense_like, new_rows
from kbench.operators.cross_entropy import triton_launches
from kbench.operators.cross_entropy.operator import cross_entropy

if TYPE_CHECKING:
    from torch import Tensor

LOSSES, GRADIENTS = Launcher(triton_launches.losses), Launcher(triton_launches.gradients)
BOTH = Launcher(triton_launches.both)


@cross_entropy.provider("triton", label="Triton", requires="triton")
def triton(logits: Tensor, labels: Tensor, *, smoothing: float) -> Tensor:
    """Reads the logits once."""
    return triton_saving(logits, labels, smoothing=smoothing)[0]


def triton_saving(logits: Tensor, labels: Tensor, *, smoothing: float) -> tuple[Tensor, Tensor]:
    """The losses, and for the backward pass the maximum and the sum of each row, as a tensor (2, M)."""
    M = _rows(logits)
    loss, saved = new_rows(logits, M), new_rows(logits, 2, M)
    LOSSES((loss, saved), (dense(logits), labels.contiguous()), smoothing)
    return loss, saved


@cross_entropy.backward("triton", saves=triton_saving)
def triton_backward(d_loss: Tensor, logits: Tensor, labels: Tensor, saved: Tensor, *, smoothing: float) -> Tensor:
    _rows(logits)
    d_logits = dense_like(logits)
    GRADIENTS((d_logits,), (d_loss.contiguous(), dense(logits), labels.contiguous(), saved), smoothing)
    return d_logits


@cross_entropy.full("triton")
def triton_full(d_loss: Tensor, logits: Tensor, labels: Tensor, *, smoothing: float) -> tuple[Tensor, Tensor]:
    """Reads the logits once, and writes their gradients once."""
    loss, d_logits = new_rows(logits, _rows(logits)), dense_like(logits)
    BOTH((loss, d_logits), (d_loss.contiguous(), dense(logits), labels.contiguous()), smoothing)
    return loss, d_logits


cross_entropy.provider("triton-in-place", label="Triton (in place)", requires="triton", supports=same_as("triton"))(
    triton
)


@cross_entropy.backward("triton-in-place", saves=triton_saving, mutates="logits")
def triton_backward_in_place(
    d_loss: Tensor, logits: Tensor, labels: Tensor, saved: Tensor, *, smoothing: float
) -> None:
    _rows(logits)
    GRADIENTS((), (logits, d_loss.contiguous(), logits, labels.contiguous(), saved), smoothing)


@cross_entropy.full("triton-in-place", mutates="logits")
def triton_full_in_place(d_loss: Tensor, logits: Tensor, labels: Tensor, *, smoothing: float) -> tuple[Tensor, None]:
    """Reads the logits once, and writes their gradients over them."""
    loss = new_rows(logits, _rows(logits))
    BOTH((loss,), (logits, d_loss.contiguous(), logits, labels.contiguous()), smoothing)
    return loss, None


def _rows(logits: Tensor) -> int:
    """Raises Unsupported if rows are empty: they have no label."""
    M, N = logits.shape
    if not N:
        raise Unsupported("a row has no logits")
    return M
