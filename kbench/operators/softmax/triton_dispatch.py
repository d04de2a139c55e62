"""Which Triton kernel computes a softmax, in which blocks and how many threads, by the shape and the type of the matrix.

The kernels stand in `triton_kernels.py`. This file knows numbers alone: it imports without Triton and without a device.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from kbench.kernels import triton_rows
from kbench.registry import Unsupported


class Launch(NamedTuple):
    """A kernel of `triton_kernels`, its compile-time constants and the options Triton compiles it with; for `split` also
    how many slices a row has, and the elements of a slice."""

    kernel: str
    constants: dict[str, Any]
    options: dict[str, Any]
    parts: int = 1
    span: int = 0

    def programs(self, rows: int) -> int:
        """The grid that gives every row, or every slice of a row, to one program."""
        tile: int = self.constants.get("ROWS", 1)
        return math.ceil(rows / tile) * self.parts


class Line(NamedTuple):
    """A line of the dispatch: rows of at most `most` elements go to `kernel`, in blocks of at most `block` elements, each
    in threads that have `each` of them. With `aligned`, if they fill whole vectors."""

    most: float
    kernel: str
    block: int
    each: int
    aligned: bool = False


# How `triton` computes a row of so many bytes an element: the first line that holds it. The rows that a multiprocessor
# has in registers are what it has in flight, elements take a float32 register each whatever they are in memory, and
# blocks are powers of two. So in 16 bits rows of more than 8192 elements are several blocks, of which none is idle.
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
"""Of shorter rows a program has several, so many bytes in all."""

PAIR_BYTES = 2048
"""Rows of a block of so many bytes come in pairs in float32, with twice the elements a thread."""

FULL_BYTES = (8192, 16384)
"""Rows of so many bytes have no idle lane, and are faster with twice the threads; their neighbours, slower."""

LONG_ROW = 8192
"""Rows of more elements leave most of the device idle where they are few and each is one program: they are split more
finely, without tickets as long as all slices are on the device at once."""

FEW_ROWS = 64
"""So many rows are less than a program for every other multiprocessor. What counts is how soon a row is done, not how
many are in flight: rows get a program each, of one warp up to 512 elements, 4 up to 4096, and 8."""

STREAMED_BYTES = 2**23
"""The stores of a matrix of no more are streaming: input and output leave most of an L2 cache free, and the output makes
room. From 10 to 16 MiB streaming stores cost 0.7 us (do_bench, H200)."""

EIGHTHS_BYTES = 2**22
"""Matrices of no more have time for instructions: their rows are held in eighths (see `in_eighths`) only where that makes
them several times fewer, in 16-bit rows of up to 256 lanes."""

EIGHTHS_LANES = 16384
"""Rows of more lanes are not held in eighths."""

FEW_ELEMENTS = 2**23
"""A matrix of no more is not worth slices of 8192 elements: too few programs have one."""

REGISTERS = {(64, False): 80, (96, True): 128, (112, False): 128}
"""Registers a thread at most on sm_90, by its elements and whether rows start anywhere: left alone ptxas takes more than
it needs, and a multiprocessor holds a program less."""

LARGEST_TEAM, LARGEST_SLICE = 128, 16384
"""Slices of a row at most: all have to be on the device at once, so there must not be more than multiprocessors.
Elements of a slice at most: more are more than registers hold."""

SHORTEST_WINDOW = 64
"""Shorter rows that fill no whole number of vectors are moved by fewer elements at a time: they would be all edges."""

ONLINE = Launch("online", {"BLOCK": 4096, "STAGES": 3}, {})
"""For rows that this does not hold, and for devices where programs cannot wait for each other."""


def few_rows(M: int, N: int, line: Line) -> Line:
    """The line for rows that are too few to fill the device; where these are not, `line`."""
    if N <= LONG_ROW:
        return line
    smallest = min(max(2048, triton_rows.power_of_two(math.ceil(N / 32))), 4096)  # more slices meet less quickly
    for elements in (smallest, 4096, 8192):
        if M * math.ceil(N / elements) <= LARGEST_TEAM:
            return Line(math.inf, "split", elements, min(32, elements // 128))
    return Line(math.inf, "split", 4096, 32) if line.kernel == "split" and M * N <= FEW_ELEMENTS else line


def fullest(itemsize: int, lanes: int, window: bool) -> float:
    """The share of a power of two that a row may fill to be held in eighths of it. 16 bits have less time for idle lanes,
    least where edges are folded in few or in very many; but rows that fill three quarters exactly are faster whole."""
    if itemsize == 4:
        return 5 / 8
    if lanes <= 512:
        return 7 / 8 if window else 6 / 8
    return 7 / 8 if window and lanes > 8192 else 0.74


def in_eighths(M: int, N: int, itemsize: int, vector: int, warp_size: int) -> tuple[dict[str, int], int, int] | None:
    """The blocks of a tile whose rows are held in five, six or seven eighths of a power of two rather than in all of it,
    its lanes, and how many of those a thread has; None for rows that fill enough of theirs.

    Idle lanes take as many instructions as others. A thread has 16 bytes of every eighth, or 32 where a row is long
    enough, and a program a warp or more.
    """
    window = N % vector != 0
    width = N + (vector - 1 if window else 0)
    lanes = triton_rows.power_of_two(width)
    small = M * N * itemsize <= EIGHTHS_BYTES and not (itemsize == 2 and lanes <= 256)
    each = 16 // itemsize * (2 if lanes > 4096 else 1)  # of an eighth
    eighth = lanes // 8
    if width > fullest(itemsize, lanes, window) * lanes or small or lanes > EIGHTHS_LANES or eighth < 16 // itemsize:
        return None
    rows = max(1, warp_size * each // eighth)
    pieces = math.ceil(width / eighth)
    return {"ROWS": rows, "BLOCK": eighth, "PIECES": pieces}, rows * eighth * pieces, each * pieces


def dispatch(
    M: int,
    N: int,
    itemsize: int,
    vector: int | None = None,
    warp_size: int = 32,
    teams: bool = True,
    capped: bool = True,
    BLOCK: int | None = None,
    ROWS: int | None = None,
    PIECES: int | None = None,
    parts: int | None = None,
) -> Launch:
    """The launch of `triton` for M rows of N elements of `itemsize` bytes.

    `vector` is how many elements are moved at a time, 16 bytes by default, see `_vector`. Warps of 64, as on AMD's
    data-center GPUs, take half as many. `teams` is whether programs can wait for each other, `capped` whether to
    tell the compiler how many registers to use. The rest are the parameters of `triton`. Raises Unsupported when
    BLOCK does not hold a slice, or PIECES of it a row, or a row has too many.
    """
    vector = vector or 16 // itemsize
    vector = vector if N >= SHORTEST_WINDOW else math.gcd(vector, N)
    eighths = None
    if M > FEW_ROWS and not (BLOCK or ROWS or PIECES or parts):
        eighths = in_eighths(M, N, itemsize, vector, warp_size)
    if N % vector and N * itemsize <= 4096 and itemsize == 4 and not eighths:
        vector = 1  # a warp's single elements fill a cache line as well, and leave no edges
    window = N % vector != 0
    width = N + (vector - 1 if window else 0)  # lanes from the first vector of a row to its last
    lines = [line for line in DISPATCH[itemsize] if not (window and line.aligned)]
    line = next(line for line in lines if line.most >= width)
    line = few_rows(M, N, line) if teams else line
    moved = {"VEC": vector, "WINDOW": window, "STREAM": M * N * itemsize <= STREAMED_BYTES}

    def options(elements: int, each: int, ours: bool) -> dict[str, int]:
        threads = min(1024, max(warp_size, elements // each))
        most = REGISTERS.get((elements // threads, window)) if capped and ours else None
        return {"num_warps": threads // warp_size} | ({"maxnreg": most} if most else {})

    if PIECES and (BLOCK or width) * PIECES < width:
        raise Unsupported(f"BLOCK={BLOCK} in {PIECES} pieces cannot hold a row of N={N}; take more or a larger BLOCK")
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
        each = line.each * pieces * (2 if pair else 1)  # of a thread
        if window and pieces == 1:
            each *= 2  # every warp has the edges to fold
        elif width == block and width * itemsize in FULL_BYTES:
            each //= 2
        if few:
            each = max(1, block // (32 if block <= 512 else 128 if block <= 4096 else 256))
        constants = {"ROWS": rows, "BLOCK": block, "PIECES": pieces, **moved}
        return Launch("tile", constants, options(rows * block * pieces, each, block <= line.block))
    slices = next(line for line in (line, *lines) if line.kernel == "split")
    held = BLOCK or max(slices.block, triton_rows.power_of_two(math.ceil(width / LARGEST_TEAM)))
    if not (BLOCK or parts) and (held > LARGEST_SLICE or not teams):
        return ONLINE._replace(options={"num_warps": 512 // warp_size})
    span = 64 * math.ceil(width / (parts or math.ceil(width / held)) / 64)
    parts = math.ceil(width / span)
    block = BLOCK or triton_rows.power_of_two(span)
    if block < span:
        raise Unsupported(f"BLOCK={block} cannot hold one of {parts} slices of N={N}; it must be {span} or more")
    if parts > (LARGEST_TEAM if teams else 1):
        limit = f"at most {LARGEST_TEAM}" if teams else "not possible on this device"
        raise Unsupported(f"N={N} in {parts} slices: {limit}; take fewer parts or a larger BLOCK")
    constants = {"WIDTH": triton_rows.power_of_two(parts), "BLOCK": block, **moved}
    return Launch("split", constants, options(block, slices.each, block <= slices.block), parts, span)


def row_launch(N: int, BLOCK: int | None = None) -> Launch:
    """The launch of `triton-row` for rows of N elements."""
    block = triton_rows.row_block(N, BLOCK)
    return Launch("row", {"BLOCK": block}, {"num_warps": triton_rows.row_warps(block)})


def persistent_launch(N: int, itemsize: int, BLOCK: int | None = None, num_stages: int | None = None) -> Launch:
    """The launch of `triton-persistent` for rows of N elements of `itemsize` bytes."""
    block = triton_rows.row_block(N, BLOCK)
    # the row that is loaded ahead waits in shared memory, of which 64 KiB is what every target has
    stages = num_stages or (2 if block * itemsize <= 64 * 1024 else 1)
    return Launch("persistent", {"BLOCK": block, "STAGES": stages}, {"num_warps": triton_rows.row_warps(block)})
