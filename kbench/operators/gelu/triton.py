"""GELU in Triton: a program per row, and a program per block of elements whatever the rows are.

The kernel stands in `triton_kernels.py`; this file decides how it is launched. It imports without Triton.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from kbench.operators import triton_rows
from kbench.operators.gelu import gelu
from kbench.registry import Unsupported

if TYPE_CHECKING:
    from torch import Tensor

SOURCES = (Path(__file__).with_name("triton_kernels.py"), Path(triton_rows.__file__))


class Launch(NamedTuple):
    """Elements of a program, the options Triton compiles it with, and how many of the elements it does at a time."""

    block: int
    options: dict[str, Any]
    part: int

    @property
    def constants(self) -> dict[str, int]:
        return {"BLOCK": self.block, "PART": self.part}

    def override(self, **options: Any) -> Launch:
        """The same launch with these options; None leaves an option as it is."""
        return self._replace(options=self.options | {k: v for k, v in options.items() if v is not None})


ELEMENTS_LAUNCH = Launch(2048, {"num_warps": 4}, 2048)
"""The launch of `triton`: at least 8 elements a thread, so that loads are 16 bytes wide in 16-bit types too, also where
a warp is 64 threads."""


EXACT_PART = 16384
"""erf needs registers of its own: 16 warps do a longer row of the exact form in parts of this size, or they would spill."""


def row_launch(N: int, BLOCK: int | None = None, tanh: bool = True) -> Launch:
    """The launch of `triton-row` for rows of N elements. Raises Unsupported when BLOCK does not hold a row."""
    block = triton_rows.row_block(N, BLOCK)
    return Launch(block, {"num_warps": triton_rows.row_warps(block)}, block if tanh else min(block, EXACT_PART))


@gelu.provider("triton-row", label="Triton (row)", requires="triton", sources=SOURCES, supports=triton_rows.long_rows)
def triton_row(
    x: Tensor,
    *,
    approximate: str = "tanh",
    BLOCK: int | None = None,
    num_warps: int | None = None,
    num_stages: int | None = None,
    num_ctas: int | None = None,
    maxnreg: int | None = None,
    enable_fp_fusion: bool | None = None,
) -> Tensor:
    """One program per row; BLOCK is the power of two that holds a row; 4 warps, 8 from BLOCK 2048, 16 from 4096."""
    if not x.numel():
        return torch.empty_like(x)
    launch = row_launch(x.shape[1], BLOCK, approximate == "tanh").override(
        num_warps=num_warps,
        num_stages=num_stages,
        num_ctas=num_ctas,
        maxnreg=maxnreg,
        enable_fp_fusion=enable_fp_fusion,
    )
    return _run_rows(launch, x, approximate)


@gelu.provider("triton", label="Triton", requires="triton", sources=SOURCES)
def triton(
    x: Tensor,
    *,
    approximate: str = "tanh",
    BLOCK: int | None = None,
    num_warps: int | None = None,
    num_stages: int | None = None,
    num_ctas: int | None = None,
    maxnreg: int | None = None,
    enable_fp_fusion: bool | None = None,
) -> Tensor:
    """BLOCK elements per program. Where x fills its memory, in either order, its rows do not matter to the launch."""
    if not x.numel():
        return torch.empty_like(x)
    block = BLOCK or ELEMENTS_LAUNCH.block
    launch = ELEMENTS_LAUNCH._replace(block=block, part=block).override(
        num_warps=num_warps,
        num_stages=num_stages,
        num_ctas=num_ctas,
        maxnreg=maxnreg,
        enable_fp_fusion=enable_fp_fusion,
    )
    if x.is_contiguous() or x.t().is_contiguous():
        out = torch.empty_like(x)  # in the order of x
        return _run(launch, out, x, approximate, rows=1, N=x.numel(), row_stride=x.numel())
    return _run_rows(launch, x, approximate)


def _run_rows(launch: Launch, x: Tensor, approximate: str) -> Tensor:
    """Launch on the rows of x, wherever they lie. Raises Unsupported when a row's elements are not neighbours."""
    rows, N = x.shape
    if x.stride(1) != 1 and N > 1:
        raise Unsupported("the elements of a row are not next to each other in memory (stride(-1) is not 1)")
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    return _run(launch, out, x, approximate, rows=rows, N=N, row_stride=x.stride(0))


def _run(launch: Launch, out: Tensor, x: Tensor, approximate: str, rows: int, N: int, row_stride: int) -> Tensor:
    """Raises Unsupported when the programs are more than a launch can count."""
    from kbench.operators.gelu import triton_kernels

    blocks = math.ceil(N / launch.block)
    if rows * blocks > triton_rows.LARGEST_GRID:
        raise Unsupported(f"needs {rows * blocks} programs; one launch counts to {triton_rows.LARGEST_GRID}")
    tanh = approximate == "tanh"
    triton_kernels.gelu[(rows * blocks,)](
        out, x, row_stride, N, blocks, TANH=tanh, **launch.constants, **launch.options
    )
    return out
