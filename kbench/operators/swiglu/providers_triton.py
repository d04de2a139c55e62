"""SwiGLU in Triton, forward and backward: a program per block of elements. Importing this file does not need Triton."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kbench.kernels.triton_launch import Launch, Launcher, load_policy_for
from kbench.kernels.whole_rows import dense_like
from kbench.operators.swiglu.operator import swiglu

if TYPE_CHECKING:
    from torch import Tensor

BLOCK = 1024


def forward(y: Tensor, gate: Tensor, up: Tensor) -> Launch:
    from kbench.operators.swiglu.triton_kernels import forward_block

    return _blocks(forward_block, y)


def backward(d_gate: Tensor, d_up: Tensor, dy: Tensor, gate: Tensor, up: Tensor) -> Launch:
    from kbench.operators.swiglu.triton_kernels import backward_block

    return _blocks(backward_block, dy)


def _blocks(kernel: Any, x: Tensor) -> Launch:
    total, constants = x.numel(), {"BLOCK": BLOCK, "POLICY": load_policy_for(x)}
    return Launch(kernel, math.ceil(total / BLOCK), (total,), constants, {})


FORWARD, BACKWARD = Launcher(forward), Launcher(backward)


@swiglu.provider("triton", label="Triton", requires="triton")
def triton(gate: Tensor, up: Tensor) -> Tensor:
    y = dense_like(gate)
    FORWARD((y,), (gate.contiguous(), up.contiguous()))
    return y


@swiglu.backward("triton")
def triton_backward(dy: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    d_gate, d_up = dense_like(gate), dense_like(up)
    BACKWARD((d_gate, d_up), (dy.contiguous(), gate.contiguous(), up.contiguous()))
    return d_gate, d_up
