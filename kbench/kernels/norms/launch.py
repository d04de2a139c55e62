"""Normalises rows, and computes the gradients, in Triton: which kernel computes which matrix, and how it is launched.

Importing this file does not need Triton. The numbers were measured on an H200 (docs/kernels.md).
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any, NamedTuple

from torch import Tensor

from kbench.kernels.matrices import dense, dense_like, new_rows
from kbench.kernels.triton_launch import (
    KeptLaunch,
    Launch,
    Launcher,
    Processors,
    facts_of,
    power_of_two,
    processors_of,
    shared_words,
    span_of,
    whole_power,
)

SHORT_BYTES = 1024
"""Shorter rows share a program."""

LONGEST_HELD = 16384
"""Elements of a row that one program holds in registers, on the way forward or in a backward pass that computes few rows."""

LONGEST_RESIDENT = 8192
"""Elements of a row that one program holds beside the sums over its rows."""

REGISTER_BYTES = 180 * 1024
"""Of the registers of a multiprocessor, those that hold rows, in float32, and their weights on the way forward."""

TILE = 4096
"""In the backward pass, shorter rows share a program until it has this many elements."""


class Shape(NamedTuple):
    """M rows of N elements of `itemsize` bytes in each of the `matrices` that are read, beside weights of elements of
    `weight_bytes`. Accesses move `vector` elements: rows begin at multiples of it, and consist of it."""

    M: int
    N: int
    itemsize: int
    weight_bytes: int
    vector: int
    matrices: int
    layernorm: bool
    processors: Processors = Processors()


def vector_of(*matrices: Tensor) -> int:
    """Elements of which all rows consist, and at multiples of which they begin in memory, up to 16 bytes."""
    itemsize = matrices[0].element_size()
    strides = [matrix.stride(0) * itemsize for matrix in matrices if matrix.shape[0] > 1]
    addresses = [matrix.data_ptr() for matrix in matrices]
    return math.gcd(16, matrices[0].shape[1] * itemsize, *strides, *addresses) // itemsize


def warps(shape: Shape, elements: int, of_a_thread: int, most: int = 16) -> dict[str, Any]:
    """As many warps as give a thread at most so many elements, up to `most` warps of 32 threads."""
    threads = min(power_of_two(math.ceil(elements / of_a_thread)), most * 32)
    return {"num_warps": max(1, threads // shape.processors.warp_size)}


def normalise(
    x: Tensor,
    weight: Tensor,
    eps: float,
    *,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    h: Tensor | None = None,
    statistics: Tensor | None = None,
) -> Tensor:
    """The normalised rows of x, as `forward.py` computes them. `h`, which may be the residual, gets the sum of both.
    `statistics` are for `gradients`: float32, (M,) or, with a bias, (2, M)."""
    x, y = dense(x), dense_like(x)
    residual = None if residual is None else dense(residual)
    bias = None if bias is None else bias.contiguous()
    _forward((y,), (h, statistics, x, residual, weight.contiguous(), bias), float(eps))
    return y


def forward_launch(
    y: Tensor,
    h: Tensor | None,
    statistics: Tensor | None,
    x: Tensor,
    residual: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
    eps: float,
) -> Launch:
    matrices = [matrix for matrix in (x, y, residual, h) if matrix is not None]
    (M, N), strides = x.shape, [0 if matrix is None else matrix.stride(0) for matrix in (x, residual, h)]
    sizes = (x.element_size(), weight.element_size(), vector_of(*matrices), 1 if residual is None else 2)
    return forward_way(Shape(M, N, *sizes, bias is not None, processors_of(x.device)), (*strides, M, N, eps))


_forward = Launcher(forward_launch)


def forward_way(shape: Shape, numbers: tuple[float, ...]) -> Launch:
    """A thread has up to three accesses of 16 bytes of each row. It has four of a layernorm's rows in 16 bits and of a single
    matrix beside wider weights, and more if then no lane is idle. Beside the two wider vectors of a layernorm, 16 bytes are
    those of a vector: accesses then use whole lines of all."""
    from kbench.kernels.norms import forward

    M, N, itemsize, processors = shape.M, shape.N, shape.itemsize, shape.processors
    widest = max(itemsize, shape.weight_bytes)
    if N > LONGEST_HELD:
        constants: dict[str, Any] = {"BLOCK": 2**14 // widest, "VEC": shape.vector}
        return Launch(forward.rows_read_twice, M, numbers, constants, warps(shape, 2**14, 32))
    # a multiprocessor has registers for two rows of up to half the longest length, beside their weights
    rows_at_once = processors.multiprocessors * (2 if N <= LONGEST_HELD // 2 else 1)
    few = rows_at_once >= M
    single = shape.matrices == 1
    if N * widest <= SHORT_BYTES:
        block, pieces = power_of_two(N), 1
        rows = whole_power(min(4 * SHORT_BYTES // (block * widest), M // processors.multiprocessors))
        options = warps(shape, rows * block * widest, 32)
        early, fence = True, False
    else:
        rows = 1
        four_accesses = (single and widest > itemsize) or (shape.layernorm and itemsize == 2 and N > 2048 and not few)
        options = warps(shape, N * itemsize, 64 if four_accesses else 48, 16 if N * itemsize <= 2**15 else 32)
        block = options["num_warps"] * processors.warp_size * 16 // (widest if shape.layernorm else itemsize)
        if N % block == block // 2 and not few and options["num_warps"] > 1:
            options["num_warps"] //= 2
            block //= 2
        pieces = math.ceil(N / block)
        fence = single and not shape.layernorm and not few
        held_bytes = N * (4 + (2 if shape.layernorm else 1) * shape.weight_bytes)
        early = fence or few or processors.multiprocessors * (REGISTER_BYTES // held_bytes) >= M
    constants = {
        "ROWS": rows,
        "BLOCK": block,
        "PIECES": pieces,
        "VEC": shape.vector,
        "FULL": block * pieces == N and M % rows == 0,
        "EARLY": early or pieces == 1,
        "FENCE": fence and processors.packs,
        "PACKED": itemsize == 2 and pieces > 1 and single and processors.packs,
        "POLICY": processors.load_policy(M * N * itemsize),
    }
    return Launch(forward.rows_in_registers, math.ceil(M / rows), numbers, constants, options)


class Backward(NamedTuple):
    """The launches of a backward pass. If `parts` is not 1, the first one writes so many parts of the sums over the rows, and
    the last one adds them up."""

    first: KeptLaunch
    parts: int = 1
    last: KeptLaunch | None = None


_backward: dict[Hashable, Backward] = {}


def gradients(
    dy: Tensor, x: Tensor, statistics: Tensor, weight: Tensor, *, layernorm: bool, dh: Tensor | None = None
) -> list[Tensor]:
    """The gradients of x, of the weight and, with `layernorm`, of the bias, as `backward.py` computes them. `statistics` are
    what `normalise` saved. The order of all additions depends on the arguments' shapes and places in memory and on the device
    only, so the gradients are deterministic."""
    dy, x, weight, count = dense(dy), dense(x), weight.contiguous(), 2 if layernorm else 1
    if dh is not None:
        dh = dense(dh)
    N = x.shape[1]
    dx = dense_like(x)
    sums = new_rows(x, *((N,) if count == 1 else (count, N)), dtype=weight.dtype)
    if not x.numel():
        return [dx, *sums.zero_().view(count, N)]
    key = (x.get_device(), layernorm, facts_of((dy, x, dh, statistics, weight)))
    way = _backward.get(key)
    if way is None:
        way = _backward[key] = backward_launches(dy, x, dh, weight, layernorm)
    partial = sums if way.parts == 1 else new_rows(x, way.parts, count * N)
    way.first(dx, partial, dy, x, dh, statistics, weight)
    if way.last:
        way.last(sums, partial)
    return [dx, sums] if count == 1 else [dx, *sums.unbind()]


def backward_launches(dy: Tensor, x: Tensor, dh: Tensor | None, weight: Tensor, layernorm: bool) -> Backward:
    (M, N), inputs = x.shape, [matrix for matrix in (dy, x, dh) if matrix is not None]
    vector = math.gcd(vector_of(*inputs), weight.data_ptr() // weight.element_size())
    sizes = (x.element_size(), weight.element_size(), vector, len(inputs))
    shape = Shape(M, N, *sizes, layernorm, processors_of(x.device))
    numbers = (dy.stride(0), x.stride(0), 0 if dh is None else dh.stride(0), M, N)
    launch, parts = backward_way(shape, numbers)
    return Backward(KeptLaunch(launch), parts, KeptLaunch(add_up(shape, parts)) if parts > 1 else None)


Way = tuple[Launch, int]
"""The first launch of a backward pass, and how many parts of the sums over the rows it writes."""


def backward_way(shape: Shape, numbers: tuple[float, ...]) -> Way:
    N, access_bytes = shape.N, shape.vector * shape.itemsize
    few = shape.M <= 256 or (shape.M <= 512 and N >= 4096)
    if few and N <= LONGEST_HELD:  # reading twice takes less time than a second launch
        return rows_and_columns(shape, numbers)
    # no load on the way has fewer than 4 bytes
    staged_bytes = shape.processors.shared_bytes if access_bytes >= 4 else 0
    # registers must suffice for a mask for every access, and for rows that are not on the way to shared memory
    roomy = access_bytes > 4 and (staged_bytes > 0 or not shape.layernorm)
    longest = LONGEST_RESIDENT if roomy else LONGEST_RESIDENT // 2
    if longest >= N or _stays_packed(shape, staged_bytes):
        return resident(shape, numbers, staged_bytes)
    sharing = sharing_of(shape)
    if access_bytes >= 4 and sharing.slices(N) <= shape.processors.waiting * sharing.resident:
        return shared_rows(shape, numbers, sharing)
    return rows_and_columns(shape, numbers)


def rows_and_columns(shape: Shape, numbers: tuple[float, ...]) -> Way:
    from kbench.kernels.norms import backward

    M, N, parts, chunk = shape.M, shape.N, 1, shape.M
    if N <= LONGEST_HELD and M <= 512:
        block, pieces = row_blocks(N)
        options = warps(shape, block * pieces, 32, 8 if N * shape.itemsize <= 2**15 else 16)
        options = max(options, warps(shape, 128, 1), key=lambda option: option["num_warps"])
        width, step = min(128, max(32, power_of_two(N // 128))), 64 if M > 32 else 32
        strips = math.ceil(N / width)
    else:
        block, pieces, width, step = 4096, 0, 128, 64
        options = warps(shape, width * step, 16)
        strips = math.ceil(N / width)
        chunk = math.ceil(M / max(1, 4 * shape.processors.multiprocessors // strips))
        parts = math.ceil(M / chunk)
    constants = {"LAYERNORM": shape.layernorm, "BLOCK": block, "PIECES": pieces, "VEC": shape.vector}
    constants |= {"FULL": block * pieces == N, "STEP": step, "WIDTH": width}
    numbers = (*numbers, strips, parts, chunk)
    return Launch(backward.rows_and_columns, strips * parts + M, numbers, constants, options), parts


def _stays_packed(shape: Shape, staged_bytes: int) -> bool:
    """Whether a program can hold a longer row beside one vector of sums, because its elements stay packed, two to a register.
    There is no room for the masks of 16384 elements, or of shorter vectors."""
    fits = shape.N == LONGEST_HELD or (shape.N <= 12288 and shape.vector == 8)
    on_the_way = 2 * power_of_two(shape.N) * shape.itemsize * shape.matrices
    return shape.itemsize == 2 and not shape.layernorm and fits and on_the_way <= staged_bytes


def resident(shape: Shape, numbers: tuple[float, ...], staged_bytes: int) -> Way:
    from kbench.kernels.norms import backward

    M, N, itemsize, multiprocessors = shape.M, shape.N, shape.itemsize, shape.processors.multiprocessors
    block, pieces = row_blocks(N)
    rows = whole_power(min(TILE // (block * pieces), M // (2 * multiprocessors)))
    count = rows * block * pieces
    # measured: one program that has 16 KiB of a float32 matrix on the way, and three that have 6 KiB of a 16-bit one
    programs = 1 if count > 5120 or itemsize * count == 2**14 else 3 if 2048 < N <= 3072 and itemsize == 2 else 2
    staged = programs * 2 * count * itemsize * shape.matrices <= staged_bytes
    ahead = not staged and staged_bytes > 0
    together = rows > 1 and block >= count // 32 * 16 // itemsize  # a thread has elements of all rows
    tiles = math.ceil(M / rows)
    parts = even_programs(tiles, multiprocessors * programs)
    constants = {
        "LAYERNORM": shape.layernorm,
        "ROWS": rows,
        "BLOCK": block,
        "PIECES": pieces,
        "VEC": shape.vector,
        "FULL": M % rows == 0 and block * pieces == N,
        "TOGETHER": together,
        "AHEAD": ahead,
        "STAGES": 3 if staged else 1,
        "PACKED": N > LONGEST_RESIDENT,
        "PDL": shape.processors.chains,
    }
    options = warps(shape, count, 16 if ahead or not (together or rows == 1) else 32)
    if staged and shape.processors.caps:  # ptxas would take more, and fewer programs would fit
        options["maxnreg"] = registers(programs * options["num_warps"])
    return Launch(backward.resident, parts, (*numbers, tiles), constants, options), parts


class Sharing(NamedTuple):
    """How programs share rows: each has up to `pieces` blocks of `block` elements. It has `warps` warps of 32 threads, and
    `resident` of them fit on a multiprocessor."""

    block: int
    pieces: int
    warps: int
    resident: int

    def span(self, N: int) -> int:
        """Columns of a program."""
        return span_of(N, math.ceil(N / (self.block * self.pieces)))

    def slices(self, N: int) -> int:
        return math.ceil(N / self.span(N))


def sharing_of(shape: Shape) -> Sharing:
    """Registers are the limit: elements of 16 bits are packed, but masks and weights in float32 are not. Then instructions are:
    there are fewest for an element if a thread has many of a row."""
    if shape.vector * shape.itemsize == 4:  # a mask for every 4 bytes
        return Sharing(1024, 1, warps=4, resident=2)
    if not shape.processors.chains:
        return Sharing(2048, 1, warps=4, resident=2)
    if shape.itemsize == 4:
        return Sharing(1024, 2, warps=4, resident=3)
    rmsnorm, wide = shape.matrices == 2 and not shape.layernorm, shape.weight_bytes == 4
    masks = shape.N % (4096 if wide else 2048) != 0
    if rmsnorm and (wide or not masks):
        return Sharing(1024, 2, warps=4, resident=4)
    if masks or wide:
        return Sharing(1024, 3 if masks and wide else 4, warps=4, resident=2)
    return Sharing(512, 4, warps=4, resident=4)


def shared_rows(shape: Shape, numbers: tuple[float, ...], sharing: Sharing) -> Way:
    from kbench.kernels.norms import shared_rows as kernels

    M, N, processors = shape.M, shape.N, shape.processors
    span, slices = sharing.span(N), sharing.slices(N)
    pieces = math.ceil(span / sharing.block)
    teams = even_programs(M, max(1, processors.multiprocessors * sharing.resident // slices))
    on_the_way = 2 * span * shape.itemsize * shape.matrices + 2**11  # and what the device and the sums take
    constants = {
        "LAYERNORM": shape.layernorm,
        "BLOCK": sharing.block,
        "PIECES": pieces,
        "VEC": shape.vector,
        "PAIRS": 2 if shape.itemsize == 2 else 1,
        "FULL": N % span == 0 and span == sharing.block * pieces,
        "WIDTH": power_of_two(slices),
        "STAGES": 3 if sharing.resident * on_the_way <= processors.shared_bytes else 1,
        "PTX": processors.packs,
        "PDL": processors.chains,
    }
    options: dict[str, Any] = {"num_warps": max(1, sharing.warps * 32 // processors.warp_size)}
    if processors.packs:  # an NVIDIA device; on others, programs of so few threads always fit
        options["maxnreg"] = registers(sharing.resident * sharing.warps)
    numbers, words = (*numbers, slices, span), shared_words(M, slices)
    return Launch(kernels.shared_rows, teams * slices, numbers, constants, options, words), teams


def add_up(shape: Shape, parts: int) -> Launch:
    """A program that adds few parts has more columns: many short programs take longer than the work of each."""
    from kbench.kernels.norms import backward

    step, columns = min(64, power_of_two(parts)), (2 if shape.layernorm else 1) * shape.N
    width, chains = (16 if shape.N <= 2048 else 32) * 64 // step, shape.processors.chains
    options = warps(shape, step * width, 8) | ({"launch_pdl": True} if chains else {})
    constants = {"STEP": step, "BLOCK": width, "PDL": chains}
    return Launch(backward.add_up, math.ceil(columns / width), (parts, columns), constants, options)


def row_blocks(N: int) -> tuple[int, int]:
    """The block in which a row is held, and how many of them: one power of two or, of long rows, three quarters or five eighths
    of it."""
    whole = power_of_two(N)
    if whole >= TILE and whole * 5 // 8 >= N:
        return whole // 8, 5
    if whole >= TILE and whole * 3 // 4 >= N:
        return whole // 4, 3
    return whole, 1


def registers(warps: int) -> int:
    """Registers of a thread, of which an NVIDIA multiprocessor has 65536, if so many warps are to fit. They come by eights."""
    return min(255, 2**16 // (warps * 32) // 8 * 8)


def even_programs(tiles: int, most: int) -> int:
    """At most this many programs, of which each gets the same number of tiles, or one fewer."""
    return math.ceil(tiles / math.ceil(tiles / most))
