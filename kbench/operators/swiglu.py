# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""SwiGLU of two (M, N) matrices, as in the feed-forward layers of language models: `y = silu(gate) * up`, elementwise.

The two matrices are separate inputs, as in liger-kernel and in the models themselves. Kernels of inference engines take one
matrix of 2N columns. That is the same traffic.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor
from kbench.kernels.libraries import any_of, liger_rows, same_as, without_gaps
from kbench.kernels.matrices import dense_like
from kbench.kernels.torch_fused import add_compiled, add_scripted
from kbench.kernels.triton_launch import Launch, Launcher, processors_of
from kbench.results.case import FORWARD, Case

try:
    import triton
    import triton.language as tl
except ImportError:  # then kbench reports the provider `triton` as unavailable
    triton = None

BLOCK = 1024


def _reference(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return gate * gate.sigmoid() * up


swiglu = Operator(
    "swiglu",
    axes=("M", "N"),
    inputs={"gate": Tensor("M", "N"), "up": Tensor("M", "N")},
    outputs={"y": Tensor("M", "N")},
    reference=_reference,
    gradients=("gate", "up"),
    model_axes=[
        {"M": "tokens", "N": "intermediate"},
        {"M": "tokens*active_experts", "N": "expert_intermediate"},  # all experts in one call
    ],
    rows="M",
    # the argument of exp reaches 87 in magnitude before the result leaves float32's normal range. Its multiplication with
    # log2 e rounds once, which costs the result up to one unit per unit of the argument. Eight units are for the other steps
    tolerance=88 + 8,
    scale=lambda case, y, gate, up: y,  # a product: nothing cancels in the forward pass
)


@swiglu.provider("torch-native")
def torch_native(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Two calls. torch has no function for both. The first result is rounded to the dtype of the inputs."""
    return torch.nn.functional.silu(gate) * up


def naive(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Computes in float32 and rounds once."""
    g = gate.float()
    return (g * torch.sigmoid(g) * up.float()).to(gate.dtype)


add_scripted(swiglu, naive)
add_compiled(swiglu, naive)


def _no_liger(case: Case) -> str | None:
    if case.mode != FORWARD:
        return "Liger writes the gradients over the inputs; measure `liger-in-place`"
    return liger_rows(case)


@swiglu.provider("liger", requires="liger_kernel", supports=_no_liger)
def liger(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Liger-Kernel's Triton kernel. Its backward pass is in place: see `liger-in-place`."""
    from liger_kernel.transformers.functional import liger_swiglu

    return liger_swiglu(gate, up) if gate.numel() else torch.empty_like(gate)


swiglu.provider("liger-in-place", requires="liger_kernel", supports=any_of(liger_rows, same_as("liger")))(liger)


@swiglu.backward("liger-in-place", mutates=("gate", "up"))
def liger_backward(dy: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> None:
    """Liger writes the gradients over the inputs."""
    from liger_kernel.ops import swiglu_backward

    if dy.numel():
        swiglu_backward(without_gaps("Liger", gate), without_gaps("Liger", up), dy.contiguous())


if triton:

    @triton.jit
    def forward_block(y, gate, up, total, BLOCK: tl.constexpr, POLICY: tl.constexpr):
        """BLOCK elements per program. Grid: ceil(total / BLOCK)."""
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        g = tl.load(gate + at, mask=at < total, other=0.0, eviction_policy=POLICY).to(tl.float32)
        u = tl.load(up + at, mask=at < total, other=0.0, eviction_policy=POLICY).to(tl.float32)
        tl.store(y + at, g / (1 + tl.exp(-g)) * u, mask=at < total)

    @triton.jit
    def backward_block(d_gate, d_up, dy, gate, up, total, BLOCK: tl.constexpr, POLICY: tl.constexpr):
        """BLOCK elements per program. Grid: ceil(total / BLOCK)."""
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        d = tl.load(dy + at, mask=at < total, other=0.0, eviction_policy=POLICY).to(tl.float32)
        g = tl.load(gate + at, mask=at < total, other=0.0, eviction_policy=POLICY).to(tl.float32)
        u = tl.load(up + at, mask=at < total, other=0.0, eviction_policy=POLICY).to(tl.float32)
        s = 1 / (1 + tl.exp(-g))
        tl.store(d_gate + at, d * u * s * (1 + g * (1 - s)), mask=at < total)
        tl.store(d_up + at, d * g * s, mask=at < total)


def forward_launch(y: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> Launch:
    return _blocks(forward_block, y, BLOCK)


def backward_launch(
    d_gate: torch.Tensor, d_up: torch.Tensor, dy: torch.Tensor, gate: torch.Tensor, up: torch.Tensor
) -> Launch:
    return _blocks(backward_block, dy, 2 * BLOCK // dy.element_size())  # 16 bytes a thread of each matrix


def _blocks(kernel: Any, x: torch.Tensor, block: int) -> Launch:
    constants = {"BLOCK": block, "POLICY": processors_of(x.device).load_policy(x.nbytes)}
    return Launch(kernel, math.ceil(x.numel() / block), (x.numel(),), constants, {})


BLOCKS, GRADIENTS = Launcher(forward_launch), Launcher(backward_launch)


@swiglu.provider("triton", requires="triton")
def triton_blocks(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    y = dense_like(gate)
    BLOCKS((y,), (gate.contiguous(), up.contiguous()))
    return y


@swiglu.backward("triton")
def triton_backward(dy: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    d_gate, d_up = dense_like(gate), dense_like(up)
    GRADIENTS((d_gate, d_up), (dy.contiguous(), gate.contiguous(), up.contiguous()))
    return d_gate, d_up
