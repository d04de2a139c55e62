"""GELU in Triton: a program per row, and a program per block of elements, independent of rows.

The kernels are in `triton_kernels.py`; this file decides how to launch them. Importing it does not need Triton.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from kbench.contract.provider import Unsupported
from kbench.kernels import triton_rows
from kbench.kernels.cuda_driver import LARGEST_GRID
from kbench.kernels.triton_options import launch_options, override
from kbench.operators.gelu.operator import gelu

if TYPE_CHECKING:
    from torch import Tensor


class ElementsLaunch(NamedTuple):
    """Elements of a program, Triton's options, and how many elements the program computes at a time."""

    block: int
    options: dict[str, Any]
    part: int

    @property
    def constants(self) -> dict[str, int]:
        return {"BLOCK": self.block, "PART": self.part}


FEW_BYTES = {2: 2**20, 4: 2**19}
"""Matrices of at most this many bytes, by the bytes of an element, leave threads of the device idle. Half an access per
thread then takes less time."""

FEWEST_ELEMENTS = 4096
"""Up to this many elements are few programs, and each is faster the fewer elements it has. Blocks are then 256, or 128 if a
block of 256 would be half full."""

RESIDENT_THREADS = 2048
"""Threads that a multiprocessor holds at once."""


def elements_launch(
    total: int,
    itemsize: int,
    warp_size: int,
    multiprocessors: int,
    BLOCK: int | None = None,
    num_warps: int | None = None,
) -> ElementsLaunch:
    """The launch of `triton` for `total` elements: 4 warps, and one 16-byte access per thread.

    On an H200, 4096 x 12672 in bfloat16 takes 50.3 us; two accesses per thread take 50.9 us, four 52.1 us. With 2 warps it
    takes 63.1 us: the device cannot start the 100,000 programs faster.

    If there are few elements, a thread has 8 bytes, in 8 warps for 16-bit types: 131072 elements in bfloat16 take 1.99 us
    instead of 2.05 us. In float32 a thread makes two accesses if all programs are then on the device at once, and would not
    be with one access: 64 x 32000 takes 5.76 us instead of 5.99 us.
    """
    few = total * itemsize <= FEW_BYTES[itemsize]
    fewest = total <= FEWEST_ELEMENTS
    warps = num_warps or (8 if few and itemsize == 2 and not fewest else 4)
    block = (128 if total % 256 == 128 else 256) if fewest else warps * warp_size * (8 if few else 16) // itemsize
    resident = multiprocessors * RESIDENT_THREADS // (warps * warp_size) * block  # elements
    if itemsize == 4 and resident < total <= 2 * resident:
        block *= 2
    return ElementsLaunch(BLOCK or block, {"num_warps": warps}, BLOCK or block)


EXACT_PART = 16384
"""16 warps compute a longer row of the exact form in parts of this size. Whole, they would spill registers, because the form
evaluates a polynomial."""


def row_launch(N: int, BLOCK: int | None = None, tanh: bool = True) -> ElementsLaunch:
    """The launch of `triton-row` for rows of N elements. Raises Unsupported if BLOCK does not hold a row."""
    block = triton_rows.row_block(N, BLOCK)
    return ElementsLaunch(block, {"num_warps": triton_rows.row_warps(block)}, block if tanh else min(block, EXACT_PART))


@gelu.provider("triton-row", label="Triton (row)", requires="triton", supports=triton_rows.long_rows)
@launch_options
def triton_row(
    x: Tensor,
    *,
    options: dict[str, Any],
    approximate: str = "tanh",
    BLOCK: int | None = None,
) -> Tensor:
    """One program per row. BLOCK is the power of two that holds a row. 4 warps, or 8 from BLOCK 2048 on, or 16 from 4096 on."""
    if not x.numel():
        return torch.empty_like(x)
    launch = override(row_launch(x.shape[1], BLOCK, approximate == "tanh"), options)
    return _run_rows(launch, x, approximate)


@gelu.provider("triton", label="Triton", requires="triton")
@launch_options
def triton(
    x: Tensor,
    *,
    options: dict[str, Any],
    approximate: str = "tanh",
    BLOCK: int | None = None,
) -> Tensor:
    """BLOCK elements per program: 16 bytes per thread of the 4 warps (`num_warps`), or 8 if there are few elements. If x has
    no gaps in memory, in either order, its rows do not matter to the launch."""
    if not x.numel():
        return torch.empty_like(x)
    launch = elements_launch(
        x.numel(),
        x.element_size(),
        triton_rows.warp_size(x.device),
        triton_rows.multiprocessors(x.device),
        BLOCK,
        options.get("num_warps"),
    )
    launch = override(launch, options)
    if x.is_contiguous() or x.t().is_contiguous():
        return _run_flat(launch, x, approximate)
    return _run_rows(launch, x, approximate)


def _run_flat(launch: ElementsLaunch, x: Tensor, approximate: str) -> Tensor:
    """Launch on the elements of x in memory order; x has no gaps. Raises Unsupported as `_programs` does."""
    from kbench.operators.gelu import triton_kernels

    out = torch.empty_like(x)  # same memory order as x
    grid = _programs(math.ceil(x.numel() / launch.block))
    constants = {"BLOCK": launch.block, "EVEN": x.numel() % launch.block == 0}
    triton_kernels.gelu[grid](out, x, x.numel(), **_shared_constants(x, approximate), **constants, **launch.options)
    return out


def _run_rows(launch: ElementsLaunch, x: Tensor, approximate: str) -> Tensor:
    """Launch on the rows of x, with any row stride. Raises Unsupported if the elements of a row are not neighbours."""
    rows, N = x.shape
    if x.stride(1) != 1 and N > 1:
        raise Unsupported("the elements of a row are not next to each other in memory (stride(-1) is not 1)")
    from kbench.operators.gelu import triton_kernels

    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    blocks = math.ceil(N / launch.block)
    triton_kernels.gelu_rows[_programs(rows * blocks)](
        out, x, x.stride(0), N, blocks, **_shared_constants(x, approximate), **launch.constants, **launch.options
    )
    return out


def _shared_constants(x: Tensor, approximate: str) -> dict[str, Any]:
    """The constants that both kernels take."""
    return {"TANH": approximate == "tanh", "POLICY": triton_rows.load_policy_for(x)}


def _programs(count: int) -> tuple[int]:
    """The grid of this many programs. Raises Unsupported if a launch cannot have as many."""
    if count > LARGEST_GRID:
        raise Unsupported(f"needs {count} programs; one launch has at most {LARGEST_GRID}")
    return (count,)
