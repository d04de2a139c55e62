"""SwiGLU in Triton, forward and backward: a program per block of elements. Importing this file does not need Triton."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from kbench.kernels import triton_launch
from kbench.operators.swiglu.operator import swiglu

if TYPE_CHECKING:
    from torch import Tensor

BLOCK = 1024


@swiglu.provider("triton", label="Triton", requires="triton")
def triton(gate: Tensor, up: Tensor) -> Tensor:
    from kbench.operators.swiglu.triton_kernels import forward_block

    gate, up = gate.contiguous(), up.contiguous()
    y = torch.empty_like(gate)
    if y.numel():
        forward_block[_grid(y)](y, gate, up, y.numel(), BLOCK, triton_launch.load_policy_for(y))
    return y


@swiglu.backward("triton")
def triton_backward(dy: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    from kbench.operators.swiglu.triton_kernels import backward_block

    dy, gate, up = dy.contiguous(), gate.contiguous(), up.contiguous()
    d_gate, d_up = torch.empty_like(gate), torch.empty_like(up)
    if dy.numel():
        backward_block[_grid(dy)](d_gate, d_up, dy, gate, up, dy.numel(), BLOCK, triton_launch.load_policy_for(dy))
    return d_gate, d_up


def _grid(x: Tensor) -> tuple[int]:
    return (math.ceil(x.numel() / BLOCK),)
