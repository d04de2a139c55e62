"""SwiGLU of Liger-Kernel. Its providers are available if the package is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kbench.kernels.libraries import any_of, liger_rows, same_as, without_gaps
from kbench.operators.swiglu.operator import swiglu
from kbench.results.case import FORWARD, Case

if TYPE_CHECKING:
    from torch import Tensor


def _no_liger(case: Case) -> str | None:
    if case.mode != FORWARD:
        return "Liger writes the gradients over the inputs; measure `liger-in-place`"
    return liger_rows(case)


@swiglu.provider("liger", label="Liger", requires="liger_kernel", supports=_no_liger)
def liger(gate: Tensor, up: Tensor) -> Tensor:
    """Liger-Kernel's Triton kernel. Its backward pass is in place: see `liger-in-place`."""
    from liger_kernel.transformers.functional import liger_swiglu

    return liger_swiglu(gate, up) if gate.numel() else torch.empty_like(gate)


swiglu.provider(
    "liger-in-place", label="Liger (in place)", requires="liger_kernel", supports=any_of(liger_rows, same_as("liger"))
)(liger)


@swiglu.backward("liger-in-place", mutates=("gate", "up"))
def liger_backward(dy: Tensor, gate: Tensor, up: Tensor) -> None:
    """Liger writes the gradients over the inputs."""
    from liger_kernel.ops import swiglu_backward

    if dy.numel():
        swiglu_backward(without_gaps("Liger", gate), without_gaps("Liger", up), dy.contiguous())
