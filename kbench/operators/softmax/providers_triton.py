"""Softmax in Triton: the textbook kernel, its persistent form, and the best kernel for each row length.

The kernels are in `triton_kernels.py`, and `triton_launches.py` chooses among them. Importing it does not need Triton.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbench.kernels.triton_launch import Launcher, long_rows
from kbench.kernels.whole_rows import dense, dense_like
from kbench.operators.softmax import triton_launches
from kbench.operators.softmax.operator import softmax

if TYPE_CHECKING:
    from torch import Tensor

ROW, PERSISTENT = Launcher(triton_launches.row), Launcher(triton_launches.persistent)
FORWARD, BACKWARD = Launcher(triton_launches.forward), Launcher(triton_launches.backward)


@softmax.provider("triton-row", label="Triton (row)", requires="triton", supports=long_rows)
def triton_row(
    x: Tensor, *, BLOCK: int | None = None, num_warps: int | None = None, num_stages: int | None = None
) -> Tensor:
    """One program per row. BLOCK is the power of two that holds a row. 4 warps, or 8 from BLOCK 2048 on, or 16 from 4096 on."""
    out = dense_like(x)
    ROW((out,), (x,), BLOCK, num_warps, num_stages)
    return out


@softmax.provider("triton-persistent", label="Triton (persistent)", requires="triton", supports=long_rows)
def triton_persistent(
    x: Tensor, *, BLOCK: int | None = None, num_warps: int | None = None, num_stages: int | None = None
) -> Tensor:
    """As many programs as the device holds at once. Each strides over the rows and loads `num_stages` - 1 rows ahead."""
    out = dense_like(x)
    PERSISTENT((out,), (x,), BLOCK, num_warps, num_stages)
    return out


@softmax.provider("triton", label="Triton", requires="triton")
def triton(x: Tensor) -> Tensor:
    """The kernel and the launch of `triton_launches.py` for each shape. Reads x once, unless rows are very long."""
    out = dense_like(x)
    FORWARD((out,), (x,))
    return out


@softmax.backward("triton", saves=["y"])
def triton_backward(dy: Tensor, x: Tensor, saved: tuple[Tensor]) -> Tensor:
    """`y * (dy - sum(dy * y))`. Reads y and dy once, unless rows are very long."""
    y = saved[0]
    dx = dense_like(y)
    BACKWARD((dx,), (dense(dy), y))
    return dx
