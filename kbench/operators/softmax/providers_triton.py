"""Softmax in Triton: the textbook kernel, its persistent form, and the best kernel for each row length.

The kernels are in `triton_kernels.py`. This file decides how to launch them: the blocks and the threads, by the shape and the
dtype of the matrix. The limits come from measurements on an H200. The rows in registers are all that a multiprocessor has in
flight. Importing it does not need Triton.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kbench.kernels.matrices import dense, dense_like, require_dense
from kbench.kernels.triton_launch import (
    Division,
    Launch,
    Launcher,
    Matrix,
    few_programs,
    held_whole,
    long_rows,
    matrix_of,
    power_of_two,
    row_warps,
    rows_in_steps,
    rows_launch,
    span_of,
    waiting_rows,
    whole_rows,
)
from kbench.operators.softmax.operator import softmax


class Line(NamedTuple):
    """A line of a table: rows of at most `most` lanes are held in blocks of at most `block` lanes, with `thread_lanes` lanes
    per thread. A line that is not for `edges` is for rows that consist of whole vectors."""

    most: float
    block: int
    thread_lanes: int
    edges: bool = True


# By the bytes of an element. The first line that holds a row applies. An element takes a float32 register, whatever its dtype
# in memory. Blocks are powers of two. So a 16-bit row of more than 8192 elements is held in several blocks, all nearly full.
WHOLE: dict[int, tuple[Line, ...]] = {
    2: (Line(2048, 2048, 16), Line(8192, 8192, 32), Line(24576, 4096, 16), Line(28672, 4096, 16, edges=False)),
    4: (Line(1024, 1024, 8), Line(8192, 8192, 16), Line(16384, 16384, 32)),
}

SLICE, SLICE_OF_WHOLE_VECTORS = 4096, 8192
"""Lanes of a slice of a longer row. 16-bit rows that consist of whole vectors have the second."""

SLICE_EACH = 64
"""Lanes of a slice for each thread, or half as many if there are few elements."""

MOST_SLICES, LARGEST_SLICE = 128, 16384
"""The most slices of a row, on a device that holds as many programs at once. The most lanes of a slice: registers hold no
more."""

TILE_BYTES = 2048
"""Shorter rows are batched until a program has this many bytes."""

LONG_ROW = 8192
"""A few rows of more elements than this would leave most of the device idle with one program each. They are split into more
slices."""

FEW_ROWS = 64
"""Up to this many rows occupy at most every second multiprocessor. Then the latency of a row counts, not the number of rows
in flight. A row gets a program of its own: of 1 warp up to 512 elements, of 4 warps up to 4096, and of 8 warps beyond."""

FEW_ELEMENTS = 2**23
"""A matrix of at most this many elements is not split into long slices: there would be too few programs."""

STREAMED_BYTES = 2**23
"""A matrix of at most this many bytes is written with streaming stores, so that the output leaves room for the input in the
L2 cache. From 10 to 16 MiB, streaming stores cost 0.7 us (do_bench, H200)."""

EIGHTHS_BYTES = 2**22
"""Instructions do not limit a matrix of at most this many bytes. Its rows are held in eighths (see `_eighths`) only in 16 bits
and up to 256 lanes, where that saves most of the instructions."""

EIGHTHS_LANES = 16384
"""Rows with more lanes are not held in eighths."""

REGISTERS = {(64, False): 80, (96, True): 128, (112, False): 128}
"""Limit of registers per thread, by the lanes per thread and whether rows begin anywhere. Without a limit ptxas takes more than
it needs, and a multiprocessor holds one program less."""

SLICE_EDGES_REGISTERS = 96
"""The same for slices of SLICE_EACH lanes per thread of rows that begin anywhere."""

ODD_FLOATS_BYTES = 4096
"""Rows of at most so many bytes in float32 are moved element by element if they begin anywhere: the elements of a warp fill a
cache line too, and leave no edges."""


def forward(out: Tensor, x: Tensor, slices: int | None = None) -> Launch:
    """The launch of `triton`. `slices` replaces the number of slices of a row."""
    from kbench.operators.softmax import triton_kernels as kernels

    division, matrix = divide(matrix_of(x, out), slices)
    M, N, stride = matrix.rows, matrix.columns, x.stride(0)
    if division is None:
        warps = 512 // matrix.processors.warp_size
        return Launch(kernels.rows_read_twice, M, (stride, M, N), {"BLOCK": 4096, "STAGES": 3}, {"num_warps": warps})
    constants = {"PIECES": division.blocks, "STREAM": matrix.bytes <= STREAMED_BYTES}
    numbers = (stride, M, N, division.slices, division.span)
    return rows_launch(kernels.rows_in_registers, matrix, division, numbers, constants)


def divide(x: Matrix, slices: int | None = None) -> tuple[Division | None, Matrix]:
    """How the rows are divided, and the matrix as it is then moved. No division for rows that no slices hold, and for long rows
    on a device on which programs cannot wait for each other."""
    eighths = _eighths(x) if x.rows > FEW_ROWS and slices is None else None
    if eighths:
        return eighths, x
    if x.edges and x.itemsize == 4 and x.columns * 4 <= ODD_FLOATS_BYTES:
        x = x._replace(vector=1, edges=False)
    few = _few_rows(x) if slices is None else None
    whole = next((line for line in WHOLE[x.itemsize] if line.most >= x.lanes and (line.edges or not x.edges)), None)
    if slices is None and whole and few is None:
        return _whole(x, whole), x
    full = x.rows * x.columns > FEW_ELEMENTS
    block = SLICE_OF_WHOLE_VECTORS if full and x.itemsize == 2 and not x.edges else SLICE
    line = few or Line(math.inf, block, SLICE_EACH if full else SLICE_EACH // 2)
    return _sliced(x, line, slices), x


def _threads(x: Matrix, lanes: int, thread_lanes: int) -> int:
    return min(1024, max(x.processors.warp_size, lanes // thread_lanes))


def _limit(x: Matrix, lanes_per_thread: int) -> int | None:
    return REGISTERS.get((lanes_per_thread, x.edges)) if x.processors.caps else None


def _whole(x: Matrix, line: Line) -> Division:
    """A program holds whole rows."""
    block = min(power_of_two(x.lanes), line.block)
    pieces = math.ceil(x.lanes / block)
    if x.rows <= FEW_ROWS and block <= LONG_ROW and pieces == 1:
        together, thread_lanes = 1, max(1, block // (32 if block <= 512 else 128 if block <= 4096 else 256))
    else:
        together = max(1, TILE_BYTES // (block * x.itemsize))
        thread_lanes = line.thread_lanes * pieces
        if x.edges and pieces == 1:  # every warp computes the edges too
            thread_lanes *= 2
    lanes = together * block * pieces
    threads = _threads(x, lanes, thread_lanes)
    warps, limit = threads // x.processors.warp_size, _limit(x, lanes // threads)
    return Division(together, block, pieces, warps, 1, span_of(x.lanes, 1), limit)


def _few_rows(x: Matrix) -> Line | None:
    """The slices of rows that are too few to fill the device; None if there are enough, or if they are short."""
    if x.columns <= LONG_ROW or not x.processors.waiting:
        return None
    # more slices take longer to exchange results
    smallest = min(max(2048, power_of_two(math.ceil(x.columns / 32))), SLICE)
    for block in (smallest, SLICE, SLICE_OF_WHOLE_VECTORS):
        if x.rows * math.ceil(x.columns / block) <= MOST_SLICES:
            return Line(math.inf, block, min(32, block // 128))
    return None


def _sliced(x: Matrix, line: Line, slices: int | None) -> Division | None:
    """Several programs hold a row, each a slice in one block."""

    def most_slices(block: int) -> int:
        threads = max(x.processors.warp_size, block // line.thread_lanes)
        return min(MOST_SLICES, x.processors.programs_at_once(threads)) if x.processors.waiting else 1

    slice_lanes = line.block
    while slice_lanes <= LARGEST_SLICE and x.lanes > slice_lanes * most_slices(slice_lanes):
        slice_lanes *= 2
    if slice_lanes > LARGEST_SLICE and slices is None:
        return None
    span = span_of(x.lanes, slices or math.ceil(x.lanes / slice_lanes))
    block = power_of_two(span)
    threads = _threads(x, block, line.thread_lanes)
    several = math.ceil(x.lanes / span)
    # to join more than 64 slices takes more registers
    limit = _limit(x, block // threads) if block <= line.block and several <= 64 else None
    if x.processors.caps and x.edges and block <= SLICE and line.thread_lanes == SLICE_EACH:
        limit = SLICE_EDGES_REGISTERS
    return Division(1, block, 1, threads // x.processors.warp_size, several, span, limit)


def _fullest(x: Matrix, lanes: int) -> float:
    """The largest share of a power of two that a row may fill to be held in eighths of it.

    Idle lanes cost more time in 16 bits, and most for short and for very long rows with edges. A row that fills exactly three
    quarters is faster whole.
    """
    if x.itemsize == 4:
        return 5 / 8
    if lanes <= 512:
        return 7 / 8 if x.edges else 6 / 8
    return 7 / 8 if x.edges and lanes > 8192 else 0.74


def _eighths(x: Matrix) -> Division | None:
    """Rows in five, six or seven eighths of a power of two. None for rows that fill enough of the power of two.

    Idle lanes take as many instructions as others. A thread has 16 bytes of every eighth, or 32 if the row is long enough. A
    program has at least one warp.
    """
    lanes, access = power_of_two(x.lanes), 16 // x.itemsize
    small = x.bytes <= EIGHTHS_BYTES and not (x.itemsize == 2 and lanes <= 256)
    thread_lanes = access * (2 if lanes > 4096 else 1)
    eighth = lanes // 8
    if x.lanes > _fullest(x, lanes) * lanes or small or lanes > EIGHTHS_LANES or eighth < access:
        return None
    together = max(1, x.processors.warp_size * thread_lanes // eighth)
    pieces = math.ceil(x.lanes / eighth)
    threads = _threads(x, together * eighth * pieces, thread_lanes * pieces)
    return Division(together, eighth, pieces, threads // x.processors.warp_size, 1, span_of(x.lanes, 1))


LONG_FLOATS = 2**17
"""In float32, rows of more bytes than this have slices of 16 blocks."""


def backward(dx: Tensor, dy: Tensor, y: Tensor, slices: int | None = None) -> Launch:
    """The launch of `softmax_gradients`. `slices` replaces the number of slices of a row."""
    from kbench.operators.softmax import triton_kernels as kernels

    x = matrix_of(y, dy, dx)
    division = divide_gradients(x, slices)
    constants = {"HELD": division.blocks, "PIECES": division.step, "PACKED": x.packed}
    numbers = (dy.stride(0), y.stride(0), x.rows, x.columns, division.slices, division.span, division.loops)
    return rows_launch(kernels.softmax_gradients, x, division, numbers, constants)


def divide_gradients(x: Matrix, slices: int | None = None) -> Division:
    if slices is None and held_whole(x):
        whole = whole_rows(x, 4)
        if x.itemsize == 4 or whole.warps * x.processors.warp_size < 512:
            return whole
        if x.edges:
            return whole._replace(registers=64 if x.processors.caps else None)
        block = x.vector * 1024  # two programs of 1024 threads on a multiprocessor
        return whole._replace(together=1, block=block, blocks=math.ceil(x.lanes / block), warps=2 * whole.warps)
    if shared := waiting_rows(x, _blocks_of_slices(x), slices):
        if x.processors.caps and shared.blocks <= 16:
            shared = shared._replace(registers=168 if shared.blocks > 12 else 112 if x.edges else 96)
        return shared
    return rows_in_steps(x, 2)


def _blocks_of_slices(x: Matrix) -> tuple[int, ...]:
    """The blocks of a slice: as many as registers can hold on a full device, and then fewer."""
    if few_programs(x):
        return 4, 8
    if x.itemsize == 4 and x.row_bytes > LONG_FLOATS:
        return 16, 8
    return (10,) if x.itemsize == 2 and x.edges else (8,)


def row(out: Tensor, x: Tensor, num_warps: int | None, num_stages: int | None) -> Launch:
    """The launch of `triton-row`."""
    from kbench.operators.softmax import triton_kernels as kernels

    block = power_of_two(require_dense(x).shape[1])
    options = {"num_warps": num_warps or row_warps(block)} | ({"num_stages": num_stages} if num_stages else {})
    return Launch(kernels.row, x.shape[0], (x.stride(0), *x.shape), {"BLOCK": block}, options)


def persistent(out: Tensor, x: Tensor, num_warps: int | None, num_stages: int | None) -> Launch:
    """The launch of `triton-persistent`: at most as many programs as the device holds at once. That depends on the registers
    and the shared memory of the compiled kernel."""
    from kbench.operators.softmax import triton_kernels as kernels

    block = power_of_two(require_dense(x).shape[1])
    # the row that is loaded ahead waits in shared memory; every target has 64 KiB of it
    constants = {"BLOCK": block, "STAGES": num_stages or (2 if block * x.element_size() <= 64 * 1024 else 1)}
    options = {"num_warps": num_warps or row_warps(block)}
    numbers = (x.stride(0), *x.shape)
    programs = FIXED_PROGRAMS.get(x.device.type)
    if programs is None:
        compiled = kernels.persistent.warmup(out, x, *numbers, **constants, **options, grid=(1,))
        compiled._init_handles()  # loads the binary, which sets the register count
        properties: Any = torch.cuda.get_device_properties(x.device)
        resident = occupancy(properties, options["num_warps"], compiled.n_regs, compiled.metadata.shared)
        programs = resident * properties.multi_processor_count
    return Launch(kernels.persistent, min(programs, x.shape[0]), numbers, constants, options)


FIXED_PROGRAMS = {"npu": 32, "xpu": 32, "cpu": 4}
"""Programs of the persistent kernel on devices that do not report an occupancy. `cpu` is Triton's interpreter."""


def occupancy(properties: Any, num_warps: int, registers: int, shared_bytes: int) -> int:
    """Programs that one multiprocessor holds at once, at least 1.

    `properties` are torch's device properties. A program has `num_warps` warps and `shared_bytes` of shared memory, and a
    thread has `registers` registers. From the CUDA C++ Programming Guide, technical specifications per compute
    capability: a warp gets registers in units of 256, and the system takes 1 KiB of shared memory per block.
    """
    threads = num_warps * properties.warp_size
    resident: int = min(
        32,  # blocks per multiprocessor on sm_80 and sm_90
        properties.max_threads_per_multi_processor // threads,
        properties.regs_per_multiprocessor // (threads * 8 * math.ceil(max(registers, 1) / 8)),
        properties.shared_memory_per_multiprocessor // (shared_bytes + 1024),
    )
    return max(resident, 1)


ROW, PERSISTENT = Launcher(row), Launcher(persistent)
FORWARD, BACKWARD = Launcher(forward), Launcher(backward)


@softmax.provider("triton-row", requires="triton", supports=long_rows)
def triton_row(x: Tensor, *, num_warps: int | None = None, num_stages: int | None = None) -> Tensor:
    """One program per row, in a block of a power of two. 4 warps, or 8 from a block of 2048 on, or 16 from 4096 on."""
    out = dense_like(x)
    ROW((out,), (x,), num_warps, num_stages)
    return out


@softmax.provider("triton-persistent", requires="triton", supports=long_rows)
def triton_persistent(x: Tensor, *, num_warps: int | None = None, num_stages: int | None = None) -> Tensor:
    """As many programs as the device holds at once. Each strides over the rows and loads `num_stages` - 1 rows ahead."""
    out = dense_like(x)
    PERSISTENT((out,), (x,), num_warps, num_stages)
    return out


@softmax.provider("triton", requires="triton")
def triton(x: Tensor) -> Tensor:
    """The best kernel and launch for each shape. Reads x once, unless rows are very long."""
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
