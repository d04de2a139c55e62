"""Softmax in Triton: the textbook kernel, its persistent form, and the best kernel for each row length.

The kernels are in `triton_kernels.py`, `triton_dispatch.py` chooses among them, and this file launches them. Importing it
does not need Triton.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from kbench.contract.provider import Unsupported
from kbench.kernels import triton_rows, whole_rows
from kbench.kernels.block_mailbox import row_mailbox
from kbench.kernels.cuda_driver import LARGEST_GRID
from kbench.kernels.slice_launch import launch_slices, matrix_of
from kbench.kernels.triton_options import launch_options, override
from kbench.operators.softmax.operator import softmax
from kbench.operators.softmax.triton_backward_dispatch import backward_launch
from kbench.operators.softmax.triton_dispatch import Launch, dispatch, persistent_launch, row_launch

if TYPE_CHECKING:
    from torch import Tensor


@softmax.provider("triton-row", label="Triton (row)", requires="triton", supports=triton_rows.long_rows)
@launch_options
def triton_row(
    x: Tensor,
    *,
    options: dict[str, Any],
    BLOCK: int | None = None,
) -> Tensor:
    """One program per row. BLOCK is the power of two that holds a row. 4 warps, or 8 from BLOCK 2048 on, or 16 from 4096 on."""
    if not x.numel():
        return torch.empty_like(x)
    launch = override(row_launch(x.shape[1], BLOCK), options)
    return launch_rows(launch, x, _output(x))


@softmax.provider("triton-persistent", label="Triton (persistent)", requires="triton", supports=triton_rows.long_rows)
@launch_options
def triton_persistent(
    x: Tensor,
    *,
    options: dict[str, Any],
    BLOCK: int | None = None,
    num_stages: int | None = None,
) -> Tensor:
    """As many programs as the device holds at once. Each strides over the rows and loads `num_stages` - 1 rows ahead."""
    if not x.numel():
        return torch.empty_like(x)
    launch = override(persistent_launch(x.shape[1], x.element_size(), BLOCK, num_stages), options)
    return launch_rows(launch, x, _output(x), persistent=True)


@softmax.provider("triton", label="Triton", requires="triton")
@launch_options
def triton(
    x: Tensor,
    *,
    options: dict[str, Any],
    BLOCK: int | None = None,
    ROWS: int | None = None,
    PIECES: int | None = None,
    parts: int | None = None,
) -> Tensor:
    """The kernel and the launch of `DISPATCH` for N, unless parameters change them.

    BLOCK: elements of a row that a program holds; a longer row is split. ROWS: rows per program. PIECES: blocks of a row in
    one program. parts: slices of a row.
    """
    if not x.numel():
        return torch.empty_like(x)
    M, N = x.shape
    launch = dispatch(
        M,
        N,
        x.element_size(),
        _vector(x),
        triton_rows.warp_size(x.device),
        waiting=triton_rows.waiting_multiprocessors(x.device),
        capped=triton_rows.caps_registers(x.device) and "num_warps" not in options,
        cache_bytes=triton_rows.cache_bytes(x.device),
        BLOCK=BLOCK,
        ROWS=ROWS,
        PIECES=PIECES,
        parts=parts,
    )
    return launch_rows(override(launch, options), x, _output(x))


@softmax.backward("triton", saves=["y"])
@launch_options
def triton_backward(
    dy: Tensor, x: Tensor, saved: tuple[Tensor], *, options: dict[str, Any], parts: int | None = None
) -> Tensor:
    """`y * (dy - sum(dy * y))`. Reads y and dy once, unless rows are very long."""
    from kbench.operators.softmax.triton_backward import softmax_gradients

    y, dy = saved[0], whole_rows.dense(dy)
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if not y.numel():
        return dx
    launch = override(backward_launch(matrix_of(y, dy, dx), parts), options)
    launch_slices(softmax_gradients, launch, y, dx, dy, y, dy.stride(0), y.stride(0), *y.shape)
    return dx


def _vector(x: Tensor) -> int:
    """Elements that one access moves: 16 bytes, or fewer if a row of x and its row of the dense output differ in their
    distance from a multiple of 16 bytes."""
    M, N = x.shape
    row_stride = x.stride(0) if M > 1 else N
    return math.gcd(16 // x.element_size(), x.data_ptr() // x.element_size(), row_stride - N)


def _output(x: Tensor) -> Tensor:
    """A dense output for x. Raises Unsupported if the elements of a row are not neighbours in memory."""
    if x.stride(1) != 1 and x.shape[1] > 1:
        raise Unsupported("the elements of a row are not next to each other in memory (stride(-1) is not 1)")
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def launch_rows(launch: Launch, x: Tensor, out: Tensor, persistent: bool = False) -> Tensor:
    """Launch a kernel on the rows of x, into `out`, and return `out`.

    A persistent kernel gets as many programs as the device holds, any other one for every row, slice or tile. Raises
    Unsupported if a launch cannot have as many programs.
    """
    from kbench.operators.softmax import triton_kernels

    kernel = getattr(triton_kernels, launch.kernel)
    arguments: tuple[Any, ...] = (out, x, x.stride(0), *x.shape)
    programs = launch.programs(x.shape[0])
    if persistent:
        programs = min(programs, _resident_programs(kernel, launch, arguments, x.device))
    if launch.kernel == "split":
        parts, multiprocessors = launch.parts, triton_rows.multiprocessors(x.device)
        words = row_mailbox(x.device, x.shape[0], parts, "bit 31")
        arguments += (words, parts, launch.span, parts > 1 and programs > multiprocessors)
    if programs > LARGEST_GRID:
        raise Unsupported(f"needs {programs} programs; one launch has at most {LARGEST_GRID}")
    if launch.parts > 1 and x.device.type == "cpu":
        # the interpreter runs one program after another, so all must publish before any waits
        kernel[(programs,)](*arguments, PHASE=1, **launch.constants, **launch.options)
        kernel[(programs,)](*arguments, PHASE=2, **launch.constants, **launch.options)
    else:
        kernel[(programs,)](*arguments, **launch.constants, **launch.options)
    return out


FIXED_PROGRAMS = {"npu": 32, "xpu": 32, "cpu": 4}
"""Programs of the persistent kernel on devices that do not report an occupancy. `cpu` is Triton's interpreter."""


def _resident_programs(kernel: Any, launch: Launch, arguments: tuple[Any, ...], device: torch.device) -> int:
    """How many programs of this launch the device holds at once.

    That depends on the registers and the shared memory of the compiled kernel. Triton chooses the kernel by all properties
    that it specialises for (dtype, alignment, divisibility, options), so this asks Triton at every launch.
    """
    if device.type in FIXED_PROGRAMS:
        return FIXED_PROGRAMS[device.type]
    compiled = kernel.warmup(*arguments, **launch.constants, **launch.options, grid=(1,))
    compiled._init_handles()  # loads the binary, which sets the register count
    properties: Any = torch.cuda.get_device_properties(device)
    resident = triton_rows.occupancy(properties, launch.options["num_warps"], compiled.n_regs, compiled.metadata.shared)
    programs: int = resident * properties.multi_processor_count
    return programs
