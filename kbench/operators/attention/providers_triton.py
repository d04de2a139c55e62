"""Attention with kbench's Triton kernels: how they are launched, and how large their blocks are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kbench.kernels.triton_launch import has_descriptors, power_of_two
from kbench.operators.attention.operator import attention
from kbench.results.case import FORWARD, Case

try:
    from triton.tools.tensor_descriptor import TensorDescriptor

    from kbench.operators.attention import triton_kernels as kernels
except ImportError:  # then kbench reports the provider `triton` as unavailable
    pass


LONGEST_HEAD, LONGEST_BACKWARD = 256, 128
"""Of longer heads, the sums of a block do not fit into the registers."""

DELTA_ROWS = 64
"""Queries of a program that sums do * o."""


class Blocks(NamedTuple):
    """Queries (M) and keys (N) of a block, warps of a program, and stages of its loop."""

    M: int
    N: int
    warps: int
    stages: int

    @property
    def launch(self) -> dict[str, int]:
        return {"M": self.M, "N": self.N, "num_warps": self.warps, "num_stages": self.stages}


WITH_DESCRIPTORS = {
    "forward": {64: Blocks(64, 128, 4, 2), 128: Blocks(64, 64, 4, 3), 256: Blocks(128, 64, 8, 2)},
    "keys": {64: Blocks(128, 64, 4, 2), 128: Blocks(64, 64, 4, 2)},
    "queries": {64: Blocks(64, 64, 4, 3), 128: Blocks(128, 64, 8, 3)},
}
WITH_POINTERS = {
    "forward": {64: Blocks(64, 64, 4, 3), 128: Blocks(128, 64, 8, 2), 256: Blocks(64, 32, 8, 1)},
    "keys": {64: Blocks(32, 64, 4, 1), 128: Blocks(32, 64, 8, 1)},
    "queries": {64: Blocks(128, 64, 8, 2), 128: Blocks(64, 32, 4, 2)},
}
"""The blocks of each kernel by the length of a head, for 16-bit elements. Shorter heads have those of 64. No register spills on
the devices of test_triton_builds.py. With descriptors, they are the fastest on an H200 (4 x 32 heads, 4096 tokens); with
pointers, the largest: no such device was there to measure."""

IN_FLOAT32 = Blocks(32, 32, 8, 1)
"""Without tensor cores: right, and slow."""


def blocks_of(kernel: str, q: Tensor, chosen: str | None = None, descriptors: bool | None = None) -> Blocks:
    """The blocks of a kernel: those that a config has chosen, as in `128x64x8x3`, or those of the tables."""
    if chosen:
        return Blocks(*map(int, chosen.split("x")))
    if q.element_size() == 4:
        return IN_FLOAT32
    with_descriptors = has_descriptors(q.device) if descriptors is None else descriptors
    return (WITH_DESCRIPTORS if with_descriptors else WITH_POINTERS)[kernel][max(64, width_of(q))]


def tiled(x: Tensor, rows: int, descriptors: bool | None = None) -> Any:
    """A tensor as the kernels take it, for blocks of `rows` rows of a head. A descriptor needs rows at multiples of 16 bytes:
    others are copied."""
    dense = x if x.stride(-1) == 1 else x.contiguous()
    if not (has_descriptors(x.device) if descriptors is None else descriptors):
        return (dense, *dense.stride()[:3], *dense.shape[2:])
    unit = 16 // x.element_size()
    if dense.data_ptr() % 16 or any(stride % unit or not stride for stride in dense.stride()[:3]):
        dense = dense.clone(memory_format=torch.contiguous_format)
    return TensorDescriptor.from_tensor(dense, [1, 1, rows, width_of(dense)])


def width_of(q: Tensor) -> int:
    """The columns of a tile, which a matrix product needs 16 of."""
    return max(16, power_of_two(q.shape[-1]))


def declines(case: Case) -> str | None:
    unit, longest = 16 // case.itemsize, LONGEST_HEAD if case.mode == FORWARD else LONGEST_BACKWARD
    if longest < case.D or case.D % unit:
        return (
            f"D={case.D}: the kernels need a multiple of {unit} for {case.dtype}, up to {longest} in mode {case.mode}"
        )
    return None


def forward_saving(
    q: Tensor, k: Tensor, v: Tensor, *, causal: bool, forward: str | None = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The output. The backward pass needs it, and the logarithm of each query's sum of exponentials."""
    B, heads, S, D = q.shape
    o = torch.empty_like(q, memory_format=torch.contiguous_format)
    log_sums = q.new_empty(B, heads, S, dtype=torch.float32)
    if o.numel():
        blocks = blocks_of("forward", q, forward)
        (o_tiles, q_tiles), (k_tiles, v_tiles) = tiles((o, q), blocks.M), tiles((k, v), blocks.N)
        kernels.forward_blocks[-(-S // blocks.M), B * heads](
            o_tiles, log_sums, q_tiles, k_tiles, v_tiles, D**-0.5, S, heads, heads // k.shape[1],
            WIDTH=width_of(q), CAUSAL=causal, **blocks.launch,
        )  # fmt: skip
    return o, (o, log_sums)


@attention.provider("triton", requires="triton", supports=declines)
def triton_attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, forward: str | None = None) -> Tensor:
    return forward_saving(q, k, v, causal=causal, forward=forward)[0]


@attention.backward("triton", saves=forward_saving)
def triton_backward(
    d_o: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    saved: tuple[Tensor, Tensor],
    *,
    causal: bool,
    keys: str | None = None,
    queries: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    (B, heads, S, D), kv_heads, (o, log_sums) = q.shape, k.shape[1], saved
    d_q, d_k, d_v = (torch.empty_like(x, memory_format=torch.contiguous_format) for x in (q, k, v))
    if o.numel():
        delta, numbers = torch.empty_like(log_sums), (D**-0.5, S, heads, heads // kv_heads)
        shared = {"WIDTH": width_of(q), "CAUSAL": causal}
        kernels.deltas[-(-S // DELTA_ROWS), B * heads](
            delta, *tiles((d_o, o), DELTA_ROWS), S, heads, DELTA_ROWS, width_of(q)
        )
        blocks = blocks_of("keys", q, keys)
        of_queries, of_keys = tiles((d_o, q), blocks.M), tiles((d_k, d_v, k, v), blocks.N)
        kernels.backward_keys[-(-S // blocks.N), B * kv_heads](
            *of_keys[:2], *of_queries, *of_keys[2:], log_sums, delta, *numbers, **shared, **blocks.launch
        )
        blocks = blocks_of("queries", q, queries)
        kernels.backward_queries[-(-S // blocks.M), B * heads](
            *tiles((d_q, d_o, q), blocks.M),
            *tiles((k, v), blocks.N),
            log_sums,
            delta,
            *numbers,
            **shared,
            **blocks.launch,
        )
    return d_q, d_k, d_v


def tiles(tensors: Sequence[Tensor], rows: int) -> list[Any]:
    return [tiled(x, rows) for x in tensors]
