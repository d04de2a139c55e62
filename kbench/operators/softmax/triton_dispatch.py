"""The dispatch of `triton`: the kernel, its blocks and its threads, by the shape and the dtype of the matrix.

The kernels are in `triton_kernels.py`. This file only computes numbers: it needs neither Triton nor a device.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

from kbench.contract.provider import Unsupported
from kbench.kernels import triton_rows


class Launch(NamedTuple):
    """A kernel of `triton_kernels`, its compile-time constants, and Triton's options.

    For `split`, `parts` is the number of slices of a row, and `span` the elements of a slice.
    """

    kernel: str
    constants: dict[str, Any]
    options: dict[str, Any]
    parts: int = 1
    span: int = 0

    def programs(self, rows: int) -> int:
        """The programs that `rows` rows need: one per tile of rows, or per slice of a row."""
        tile: int = self.constants.get("ROWS", 1)
        return math.ceil(rows / tile) * self.parts


class Line(NamedTuple):
    """A line of the dispatch: `kernel` computes rows of at most `most` elements, in blocks of at most `block` elements, with
    `each` elements per thread. An `aligned` line is for rows that consist of whole vectors."""

    most: float
    kernel: str
    block: int
    each: int
    aligned: bool = False


# The lines by the bytes of an element. The first line that holds a row applies. The rows in registers are all that a
# multiprocessor has in flight. An element takes a float32 register, whatever its dtype in memory. Blocks are powers of two.
# So a 16-bit row of more than 8192 elements is split into several blocks, all of them nearly full.
DISPATCH: dict[int, tuple[Line, ...]] = {
    2: (
        Line(2048, "tile", 2048, 16),
        Line(8192, "tile", 8192, 32),
        Line(24576, "tile", 4096, 16),
        Line(28672, "tile", 4096, 16, aligned=True),
        Line(math.inf, "split", 8192, 64, aligned=True),
        Line(math.inf, "split", 4096, 64),
    ),
    4: (
        Line(1024, "tile", 1024, 8),
        Line(8192, "tile", 8192, 16),
        Line(16384, "tile", 16384, 32),
        Line(math.inf, "split", 4096, 64),
    ),
}

TILE_BYTES = 2048
"""Shorter rows are batched until a program has this many bytes."""

PAIR_BYTES = 2048
"""In float32, two rows share a program if the block of a row has this many bytes; each thread then has twice the elements."""

FULL_BYTES = (8192, 16384)
"""Rows of exactly these sizes leave no lane idle, and are faster with twice the threads. Rows of other sizes are slower."""

LONG_ROW = 8192
"""A few rows of more elements than this would leave most of the device idle with one program each. They are split into more
slices. Tickets are not needed if all slices are on the device at once."""

FEW_ROWS = 64
"""Up to this many rows occupy at most every second multiprocessor. Then the latency of a row counts, not the number of rows
in flight. A row gets a program of its own: of 1 warp up to 512 elements, of 4 warps up to 4096, and of 8 warps beyond."""

STREAMED_BYTES = 2**23
"""A matrix of at most this many bytes is written with streaming stores, so that the output leaves room for the input in the
L2 cache. From 10 to 16 MiB, streaming stores cost 0.7 us (do_bench, H200)."""

EIGHTHS_BYTES = 2**22
"""Instructions do not limit a matrix of at most this many bytes. Its rows are held in eighths (see `in_eighths`) only in
16 bits and up to 256 lanes, where that saves most of the instructions."""

EIGHTHS_LANES = 16384
"""Rows with more lanes are not held in eighths."""

FEW_ELEMENTS = 2**23
"""A matrix of at most this many elements is not split into slices of 8192: there would be too few programs."""

REGISTERS = {(64, False): 80, (96, True): 128, (112, False): 128}
"""Limit of registers per thread on sm_90, by the elements per thread and whether rows start anywhere. Without a limit ptxas
takes more than it needs, and a multiprocessor holds one program less."""

LARGEST_TEAM, LARGEST_SLICE = 128, 16384
"""The most slices of a row, on a device that holds as many programs at once. The most elements of a slice: registers hold no
more."""

SHORTEST_WINDOW = 64
"""A shorter row that does not consist of whole vectors is moved in smaller vectors; otherwise it would be all edges."""

ONLINE = Launch("online", {"BLOCK": 4096, "STAGES": 3}, {})
"""For rows that no slices hold, and for devices on which programs cannot wait for each other."""


def few_rows(M: int, N: int, line: Line) -> Line:
    """The line for rows that are too few to fill the device; `line` itself if there are enough."""
    if N <= LONG_ROW:
        return line
    smallest = min(
        max(2048, triton_rows.power_of_two(math.ceil(N / 32))), 4096
    )  # more slices take longer to exchange results
    for elements in (smallest, 4096, 8192):
        if M * math.ceil(N / elements) <= LARGEST_TEAM:
            return Line(math.inf, "split", elements, min(32, elements // 128))
    return Line(math.inf, "split", 4096, 32) if line.kernel == "split" and M * N <= FEW_ELEMENTS else line


def fullest(itemsize: int, lanes: int, window: bool) -> float:
    """The largest share of a power of two that a row may fill to be held in eighths of it.

    Idle lanes cost more time in 16 bits, and most for short and for very long rows with edges. A row that fills exactly three
    quarters is faster whole.
    """
    if itemsize == 4:
        return 5 / 8
    if lanes <= 512:
        return 7 / 8 if window else 6 / 8
    return 7 / 8 if window and lanes > 8192 else 0.74


def in_eighths(M: int, N: int, itemsize: int, vector: int, warp_size: int) -> tuple[dict[str, int], int, int] | None:
    """A tile whose rows are held in five, six or seven eighths of a power of two: its constants, its lanes, and its lanes per
    thread. None for rows that fill enough of the power of two.

    Idle lanes take as many instructions as others. A thread has 16 bytes of every eighth, or 32 if the row is long enough. A
    program has at least one warp.
    """
    window = N % vector != 0
    width = N + (vector - 1 if window else 0)
    lanes = triton_rows.power_of_two(width)
    small = M * N * itemsize <= EIGHTHS_BYTES and not (itemsize == 2 and lanes <= 256)
    each = 16 // itemsize * (2 if lanes > 4096 else 1)  # lanes of an eighth per thread
    eighth = lanes // 8
    if width > fullest(itemsize, lanes, window) * lanes or small or lanes > EIGHTHS_LANES or eighth < 16 // itemsize:
        return None
    rows = max(1, warp_size * each // eighth)
    pieces = math.ceil(width / eighth)
    return {"ROWS": rows, "BLOCK": eighth, "PIECES": pieces}, rows * eighth * pieces, each * pieces


@cache
def dispatch(
    M: int,
    N: int,
    itemsize: int,
    vector: int | None = None,
    warp_size: int = 32,
    waiting: int = 132,
    capped: bool = True,
    cache_bytes: float = triton_rows.H200_CACHE_BYTES,
    BLOCK: int | None = None,
    ROWS: int | None = None,
    PIECES: int | None = None,
    parts: int | None = None,
) -> Launch:
    """The launch of `triton` for M rows of N elements of `itemsize` bytes.

    `vector` is how many elements one access moves, 16 bytes by default (see `_vector`). With warps of 64 threads, as on
    AMD's data-center GPUs, a program has half as many warps. `waiting` is the number of multiprocessors whose programs can wait
    for each other. `capped` is whether to limit the registers. `cache_bytes` are those of the L2 cache. The rest are the
    parameters of `triton`.

    Raises Unsupported if BLOCK does not hold a slice, if PIECES blocks do not hold a row, or if a row has too many slices.
    """
    vector = vector or 16 // itemsize
    vector = vector if N >= SHORTEST_WINDOW else math.gcd(vector, N)
    eighths = None
    if M > FEW_ROWS and not (BLOCK or ROWS or PIECES or parts):
        eighths = in_eighths(M, N, itemsize, vector, warp_size)
    if N % vector and N * itemsize <= 4096 and itemsize == 4 and not eighths:
        vector = 1  # the single elements of a warp fill a cache line too, and leave no edges
    window = N % vector != 0
    width = N + (vector - 1 if window else 0)  # lanes from the first vector of a row to the last
    lines = [line for line in DISPATCH[itemsize] if not (window and line.aligned)]
    line = next(line for line in lines if line.most >= width)
    line = few_rows(M, N, line) if waiting else line
    matrix_bytes = M * N * itemsize
    moved: dict[str, Any] = {"VEC": vector, "WINDOW": window, "STREAM": matrix_bytes <= STREAMED_BYTES}
    moved["POLICY"] = triton_rows.load_policy(matrix_bytes, cache_bytes)

    def options(elements: int, each: int, ours: bool) -> dict[str, int]:
        threads = min(1024, max(warp_size, elements // each))
        most = REGISTERS.get((elements // threads, window)) if capped and ours else None
        return {"num_warps": threads // warp_size} | ({"maxnreg": most} if most else {})

    if PIECES and (BLOCK or width) * PIECES < width:
        raise Unsupported(
            f"BLOCK={BLOCK} in {PIECES} pieces cannot hold a row of N={N}; use more PIECES or a larger BLOCK"
        )
    if eighths:
        blocks, elements, each = eighths
        return Launch("tile", blocks | moved, options(elements, each, False))
    if parts is None and (line.kernel == "tile" or ROWS or PIECES) and (PIECES or (BLOCK or width) >= width):
        block = BLOCK or triton_rows.power_of_two(math.ceil(width / (PIECES or 1)))
        if line.kernel == "tile" and not (BLOCK or PIECES):
            block = min(block, line.block)
        pieces = math.ceil(width / block)
        few = M <= FEW_ROWS and block <= LONG_ROW and pieces == 1
        pair = not (few or ROWS) and itemsize == 4 and vector > 1 and block * itemsize == PAIR_BYTES
        rows = ROWS or (1 if few else 2 if pair else max(1, TILE_BYTES // (block * itemsize)))
        each = line.each * pieces * (2 if pair else 1)  # elements per thread
        if window and pieces == 1:
            each *= 2  # every warp computes the edges too
        elif width == block and width * itemsize in FULL_BYTES:
            each //= 2
        if few:
            each = max(1, block // (32 if block <= 512 else 128 if block <= 4096 else 256))
        constants = {"ROWS": rows, "BLOCK": block, "PIECES": pieces, **moved}
        return Launch("tile", constants, options(rows * block * pieces, each, block <= line.block))
    slices = next(line for line in (line, *lines) if line.kernel == "split")

    def most_parts(block: int) -> int:
        return min(LARGEST_TEAM, triton_rows.largest_team(waiting, max(warp_size, block // slices.each)))

    held = BLOCK or slices.block
    while not BLOCK and held <= LARGEST_SLICE and width > held * most_parts(held):
        held *= 2
    if not (BLOCK or parts) and held > LARGEST_SLICE:
        return ONLINE._replace(options={"num_warps": 512 // warp_size})
    span = 64 * math.ceil(width / (parts or math.ceil(width / held)) / 64)
    parts = math.ceil(width / span)
    block = BLOCK or triton_rows.power_of_two(span)
    if block < span:
        smallest = triton_rows.power_of_two(span)
        raise Unsupported(
            f"with parts={parts}, a slice of N={N} does not fit into BLOCK={block}; BLOCK must be a power of two, "
            f"{smallest} or more"
        )
    if parts > 1 and not waiting:
        raise Unsupported(
            "this device cannot split a row into slices; remove the parameter `parts`, or use a BLOCK that holds the whole row"
        )
    if parts > 1 and parts > most_parts(block):
        raise Unsupported(
            f"N={N} cannot be split into {parts} slices (at most {most_parts(block)}); use fewer parts or a larger BLOCK"
        )
    constants = {"WIDTH": triton_rows.power_of_two(parts), "BLOCK": block, **moved}
    return Launch("split", constants, options(block, slices.each, block <= slices.block), parts, span)


def row_launch(N: int, BLOCK: int | None = None) -> Launch:
    """The launch of `triton-row` for rows of N elements."""
    block = triton_rows.row_block(N, BLOCK)
    return Launch("row", {"BLOCK": block}, {"num_warps": triton_rows.row_warps(block)})


def persistent_launch(N: int, itemsize: int, BLOCK: int | None = None, num_stages: int | None = None) -> Launch:
    """The launch of `triton-persistent` for rows of N elements of `itemsize` bytes."""
    block = triton_rows.row_block(N, BLOCK)
    # the row that is loaded ahead waits in shared memory; every target has 64 KiB of it
    stages = num_stages or (2 if block * itemsize <= 64 * 1024 else 1)
    return Launch("persistent", {"BLOCK": block, "STAGES": stages}, {"num_warps": triton_rows.row_warps(block)})
