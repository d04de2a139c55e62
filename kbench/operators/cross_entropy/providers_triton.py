"""Cross-entropy in Triton: out of place, and with the gradients of the logits over the logits. Importing it does not need
Triton."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kbench.contract.provider import Unsupported
from kbench.kernels import block_mailbox
from kbench.kernels.libraries import same_as
from kbench.kernels.slice_launch import launch_slices, matrix_of
from kbench.kernels.triton_options import launch_options, override
from kbench.kernels.whole_rows import dense, known_dense
from kbench.operators.cross_entropy.operator import cross_entropy
from kbench.operators.cross_entropy.triton_dispatch import both_launch, gradients_launch, losses_launch

if TYPE_CHECKING:
    from torch import Tensor


@cross_entropy.provider("triton", label="Triton", requires="triton")
@launch_options
def triton(
    logits: Tensor, labels: Tensor, *, smoothing: float, options: dict[str, Any], parts: int | None = None
) -> Tensor:
    """Reads the logits once. `parts`: slices of a row, each of which another program reads."""
    return _losses(dense(logits), labels, smoothing, options, parts)[0]


@launch_options
def triton_saving(
    logits: Tensor, labels: Tensor, *, smoothing: float, options: dict[str, Any], parts: int | None = None
) -> tuple[Tensor, Tensor]:
    """The losses, and the maximum and the sum of each row for the backward pass."""
    return _losses(dense(logits), labels, smoothing, options, parts)


@cross_entropy.backward("triton", saves=triton_saving)
def triton_backward(d_loss: Tensor, logits: Tensor, labels: Tensor, saved: Tensor, *, smoothing: float) -> Tensor:
    d_logits = torch.empty(logits.shape, dtype=logits.dtype, device=logits.device)
    _gradients(d_logits, d_loss, dense(logits), labels, saved, smoothing)
    return d_logits


@cross_entropy.full("triton")
@launch_options
def triton_full(
    d_loss: Tensor,
    logits: Tensor,
    labels: Tensor,
    *,
    smoothing: float,
    options: dict[str, Any],
    parts: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Reads the logits once, and writes their gradients once."""
    d_logits = torch.empty(logits.shape, dtype=logits.dtype, device=logits.device)
    return _both(d_logits, d_loss, dense(logits), labels, smoothing, options, parts), d_logits


cross_entropy.provider("triton-in-place", label="Triton (in place)", requires="triton", supports=same_as("triton"))(
    triton
)


@cross_entropy.backward("triton-in-place", saves=triton_saving, mutates="logits")
def triton_backward_in_place(
    d_loss: Tensor, logits: Tensor, labels: Tensor, saved: Tensor, *, smoothing: float
) -> None:
    _gradients(known_dense(logits), d_loss, logits, labels, saved, smoothing)


@cross_entropy.full("triton-in-place", mutates="logits")
@launch_options
def triton_full_in_place(
    d_loss: Tensor,
    logits: Tensor,
    labels: Tensor,
    *,
    smoothing: float,
    options: dict[str, Any],
    parts: int | None = None,
) -> tuple[Tensor, None]:
    """Reads the logits once, and writes their gradients over them."""
    return _both(known_dense(logits), d_loss, logits, labels, smoothing, options, parts), None


def _sizes(logits: Tensor) -> tuple[int, int]:
    """Rows and columns. Raises Unsupported if rows are empty: they have no label."""
    M, N = logits.shape
    if not N:
        raise Unsupported("a row has no logits")
    return M, N


def _losses(
    x: Tensor, labels: Tensor, smoothing: float, options: dict[str, Any], parts: int | None
) -> tuple[Tensor, Tensor]:
    """The losses, and the maximum and the sum of each row, as a tensor (2, M)."""
    from kbench.operators.cross_entropy.triton_kernels import losses

    M, N = _sizes(x)
    loss, saved = (torch.empty(*shape, dtype=torch.float32, device=x.device) for shape in ((M,), (2, M)))
    if not M:
        return loss, saved
    launch = override(losses_launch(matrix_of(x), smoothing != 0, parts), options)
    words = loss
    if launch.parts > 1:
        each = 1 + launch.parts * (2 if smoothing else 1)
        words = block_mailbox.mailbox(x.device, M * each, ("cross-entropy", each))
    losses[(launch.programs(M),)](
        loss,
        saved,
        x,
        labels.contiguous(),
        x.stride(0),
        M,
        N,
        smoothing,
        words,
        launch.parts,
        launch.span,
        launch.loops,
        **launch.constants,
        **launch.options,
    )
    return loss, saved


def _gradients(dx: Tensor, d_loss: Tensor, x: Tensor, labels: Tensor, saved: Tensor, smoothing: float) -> None:
    """Write the gradients of the logits into dx, which may be x."""
    from kbench.operators.cross_entropy.triton_gradients import logit_gradients

    M, N = _sizes(x)
    if not M:
        return
    launch = gradients_launch(matrix_of(x, dx), smoothing != 0)
    logit_gradients[(launch.programs(M),)](
        dx,
        d_loss.contiguous(),
        x,
        labels.contiguous(),
        saved,
        dx.stride(0),
        x.stride(0),
        M,
        N,
        smoothing,
        launch.parts,
        **launch.constants,
        **launch.options,
    )


def _both(
    dx: Tensor,
    d_loss: Tensor,
    x: Tensor,
    labels: Tensor,
    smoothing: float,
    options: dict[str, Any],
    parts: int | None,
) -> Tensor:
    """Write the gradients of the logits into dx, which may be x, and return the losses."""
    from kbench.operators.cross_entropy.triton_gradients import losses_and_gradients

    M, N = _sizes(x)
    launch = override(both_launch(matrix_of(x, dx), smoothing != 0, parts), options)
    if launch.parts > 1 and smoothing:
        # the programs of a row exchange two numbers, and smoothing needs a third
        loss, saved = _losses(x, labels, smoothing, options, None)
        _gradients(dx, d_loss, x, labels, saved, smoothing)
        return loss
    loss = torch.empty(M, dtype=torch.float32, device=x.device)
    if not M:
        return loss
    strides = dx.stride(0), x.stride(0)
    launch_slices(
        losses_and_gradients,
        launch,
        x,
        loss,
        dx,
        d_loss.contiguous(),
        x,
        labels.contiguous(),
        *strides,
        M,
        N,
        smoothing,
    )
    return loss
