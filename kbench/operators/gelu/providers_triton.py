"""GELU in Triton: a program per row, and a program per block of elements, independent of rows.

The kernels are in `triton_kernels.py`; this file decides how to launch them. Importing it does not need Triton.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from kbench.kernels.matrices import dense_like, require_dense
from kbench.kernels.triton_launch import (
    Launch,
    Launcher,
    Processors,
    long_rows,
    power_of_two,
    processors_of,
    row_warps,
)
from kbench.operators.gelu.operator import gelu

FEW_BYTES = {2: 2**20, 4: 2**19}
"""Matrices of at most this many bytes, by the bytes of an element, leave threads of the device idle. Half an access per
thread then takes less time."""

FEWEST_ELEMENTS = 4096
"""Up to this many elements are few programs, and each is faster the fewer elements it has. Blocks are then 256, or 128 if a
block of 256 would be half full."""

RESIDENT_THREADS = 2048
"""Threads that a multiprocessor holds at once."""

EXACT_PART = 16384
"""16 warps compute a longer row of the exact form in parts of this size. Whole, they would spill registers, because the form
evaluates a polynomial."""


def block_of_elements(total: int, itemsize: int, processors: Processors) -> tuple[int, int]:
    """The elements of a program of `triton` for `total` elements, and its warps: 4, and one 16-byte access per thread.

    On an H200, 4096 x 12672 in bfloat16 takes 50.3 us; two accesses per thread take 50.9 us, four 52.1 us. With 2 warps it
    takes 63.1 us: the device cannot start the 100,000 programs faster.

    If there are few elements, a thread has 8 bytes, in 8 warps for 16-bit types: 131072 elements in bfloat16 take 1.99 us
    instead of 2.05 us. In float32 a thread makes two accesses if all programs are then on the device at once, and would not
    be with one access: 64 x 32000 takes 5.76 us instead of 5.99 us.
    """
    if total <= FEWEST_ELEMENTS:
        return (128 if total % 256 == 128 else 256), 4
    few = total * itemsize <= FEW_BYTES[itemsize]
    warps = 8 if few and itemsize == 2 else 4
    threads = warps * processors.warp_size
    block = threads * (8 if few else 16) // itemsize
    resident = processors.multiprocessors * RESIDENT_THREADS // threads * block  # elements
    return (2 * block if itemsize == 4 and resident < total <= 2 * resident else block), warps


def blocks(out: Tensor, x: Tensor, approximate: str) -> Launch:
    """The launch of `triton`: on the elements of x in memory order if x has no gaps, otherwise on parts of rows."""
    from kbench.operators.gelu import triton_kernels as kernels

    total = x.numel()
    block, warps = block_of_elements(total, x.element_size(), processors_of(x.device))
    if not (x.is_contiguous() or x.t().is_contiguous()):
        return _blocks_of_rows(x, approximate, block, warps, block)
    constants = {**_shared_constants(x, approximate), "BLOCK": block, "EVEN": total % block == 0}
    return Launch(kernels.gelu, math.ceil(total / block), (total,), constants, {"num_warps": warps})


def row(out: Tensor, x: Tensor, approximate: str, num_warps: int | None) -> Launch:
    """The launch of `triton-row`."""
    block = power_of_two(x.shape[1])
    part = block if approximate == "tanh" else min(block, EXACT_PART)
    return _blocks_of_rows(x, approximate, block, num_warps or row_warps(block), part)


def _blocks_of_rows(x: Tensor, approximate: str, block: int, warps: int, part: int) -> Launch:
    from kbench.operators.gelu import triton_kernels as kernels

    M, N = require_dense(x).shape
    blocks_of_row = math.ceil(N / block)
    constants = {**_shared_constants(x, approximate), "BLOCK": block, "PART": part}
    numbers = (x.stride(0), N, blocks_of_row)
    return Launch(kernels.gelu_rows, M * blocks_of_row, numbers, constants, {"num_warps": warps})


def _shared_constants(x: Tensor, approximate: str) -> dict[str, Any]:
    """The constants that both kernels take."""
    return {"TANH": approximate == "tanh", "POLICY": processors_of(x.device).load_policy(x.nbytes)}


BLOCKS, ROW = Launcher(blocks), Launcher(row)


@gelu.provider("triton-row", requires="triton", supports=long_rows)
def triton_row(x: Tensor, *, approximate: str = "tanh", num_warps: int | None = None) -> Tensor:
    """One program per row, in a block of a power of two. 4 warps, or 8 from a block of 2048 on, or 16 from 4096 on."""
    out = dense_like(x)
    ROW((out,), (x,), approximate, num_warps)
    return out


@gelu.provider("triton", requires="triton")
def triton(x: Tensor, *, approximate: str = "tanh") -> Tensor:
    """A block of elements per program: 16 bytes per thread of 4 warps, or 8 if there are few elements. If x has no gaps in
    memory, in either order, its rows do not matter to the launch."""
    transposed = not x.is_contiguous() and x.t().is_contiguous()
    out = torch.empty_like(x) if transposed else dense_like(x)  # in the memory order of x
    BLOCKS((out,), (x,), approximate)
    return out
