"""The dispatch of the norms: kernels, their blocks and their threads, by the shape, the dtype and the device.

The kernels are in the files beside it. This file only computes numbers: it needs neither Triton nor a device.
"""

from __future__ import annotations

import math
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

from kbench.contract.provider import Unsupported
from kbench.kernels.triton_rows import power_of_two


class Processors(NamedTuple):
    """What the dispatch asks of a device.

    `shared_bytes` is how much shared memory a program can have for loads on the way; 0 if loads do not go there. `chained` is
    whether a launch can start before the one before it ends. `together` is whether programs can wait for each other, and
    `interpreted` whether they run one after another.
    """

    multiprocessors: int
    warp_size: int
    shared_bytes: int
    chained: bool
    together: bool = True
    interpreted: bool = False


class Step(NamedTuple):
    """One launch: a kernel, how many programs, arguments that are numbers, and Triton's options."""

    kernel: str
    programs: int
    arguments: dict[str, Any]
    options: dict[str, Any]


class Launches(NamedTuple):
    """The launches of one call. `slices` is how many programs share a row, and `parts` how many share the rows: each writes its
    part of the sums over the rows. `teams` is whether programs wait for each other. With `window`, 16 bytes are moved at a time
    although rows begin anywhere."""

    steps: tuple[Step, ...]
    slices: int = 0
    parts: int = 1
    teams: bool = False
    window: bool = False


_LONGEST_ROW = 16384
"""Elements of a row that one program holds."""

_LONGEST_KEPT = 8192
"""Elements of a row that one program holds beside the sums over the rows."""

_LONGEST_MASKED = 12288
"""Elements of a packed row, see `_packed`, that may be shorter than the blocks which hold it."""

_SLICE = 8192
"""Elements that one program of a team holds, of a longer row."""

_LARGEST_TEAM = 128
"""Programs that may share a row, if there are as many multiprocessors."""

_TILE = 4096
"""Shorter rows share a program, until it has this many bytes; if there are enough of them to fill the device."""

_TILE_WITH_PIVOT = 1024
"""The same with a pivot. A row that has a program to itself needs one reduction, where several rows in a program need two."""

_TILE_BACKWARD = 4096
"""The same for the backward pass. Two such programs on a multiprocessor have as much on the way as one with twice as many."""

_DIVIDED, _DIVIDED_BACKWARD = 512, 4096
"""Rows are held in parts of a power of two if that has so many elements. In the backward pass, rows that share a program would
then be added up across warps."""

_SHORTEST_WINDOW, _LONGEST_WINDOW = 1024, 6144
"""In the backward pass, other rows are moved in smaller vectors: several short ones at a time. Long ones lack registers."""

_FEW_ROWS, _FEW_LONG_ROWS = 256, 512
"""Up to this many rows, or rows of 4096 elements and more, it is faster to read the matrix twice than to launch twice."""


def _blocks(N: int, divided: int) -> tuple[int, int]:
    """The block in which a row is held, and how many of them: one power of two or, if that is at least `divided`, three
    quarters or five eighths of it."""
    whole = power_of_two(N)
    if whole >= divided and whole * 5 // 8 >= N:
        return whole // 8, 5
    if whole >= divided and whole * 3 // 4 >= N:
        return whole // 4, 3
    return whole, 1


def _tile(M: int, N: int, most: int, programs: int, divided: int) -> dict[str, Any]:
    """Constants of a tile of whole rows: as many rows as make up `most` elements, if at least so many programs remain."""
    block, pieces = _blocks(N, divided)
    rows = max(1, min(power_of_two(most) // (block * pieces), M // programs))
    rows = 1 << (rows.bit_length() - 1)
    return {"ROWS": rows, "BLOCK": block, "PIECES": pieces, "FULL": M % rows == 0 and block * pieces == N}


def _elements(constants: dict[str, Any]) -> int:
    return int(constants["ROWS"] * constants["BLOCK"] * constants["PIECES"])


def _warps(count: int, each: int, device: Processors, most: int = 16) -> dict[str, int]:
    """As many warps as give a thread at most `each` of `count` elements, up to `most` warps of 32 threads."""
    threads = min(power_of_two(math.ceil(count / each)), most * 32)
    return {"num_warps": max(1, threads // device.warp_size)}


@cache
def forward_plan(
    M: int, N: int, itemsize: int, pivot: bool, device: Processors, anywhere: bool = False, inputs: int = 1
) -> Launches:
    """The launches that normalise M rows of N elements of `itemsize` bytes. `pivot` is that of the operator's mathematics,
    `anywhere` whether rows begin anywhere, and can be moved in windows of 16 bytes, and `inputs` the matrices that are read."""
    width = N + 16 // itemsize - 1 if anywhere else N
    whole = anywhere or N * itemsize % 16 == 0
    packed = whole and itemsize == 2 and inputs == 1 and device.shared_bytes > 0
    if width > _LONGEST_ROW:
        return _forward_teams(M, N, width, itemsize, pivot, packed, device)
    most = 1 if anywhere else (_TILE_WITH_PIVOT if pivot else _TILE) // itemsize
    constants = _tile(M, width, most, device.multiprocessors, _DIVIDED)
    count, early = _elements(constants), constants["PIECES"] == 1
    packed &= count >= 1024 and (pivot or not early or count > 8192)
    waves = M / device.multiprocessors
    crowded = itemsize == 2 and count >= 4096 and waves > 4 and (pivot or waves <= 8)
    each = 32 if early or (anywhere and count > 8192) else 48  # 48 in several blocks: a thread has 16 bytes of each
    if early and count <= 8192 and not crowded:
        each = 16
    options = _warps(count, each, device)
    if pivot and itemsize == 4 and not early and count > 8192:
        options = _warps(count, 16, device, 32)
    if device.chained and early and packed and not anywhere:
        options["maxnreg"] = 40 if each == 16 else 64  # more programs fit on a multiprocessor
    elif device.chained and whole and constants["PIECES"] == 5:
        options["maxnreg"] = 80  # without a limit, ptxas keeps to 64 registers, and spills
    alone = {"WIDTH": 1, "TICKETS": False, "PHASE": 0, "words": None, "slices": 1, "span": 0}
    ways = {"EARLY": early, "PACKED": packed, "WINDOW": anywhere, "FULL": constants["FULL"] and not anywhere}
    step = Step("forward_kernels.registers", math.ceil(M / constants["ROWS"]), constants | ways | alone, options)
    return Launches((step,), window=anywhere)


def _forward_teams(
    M: int, N: int, width: int, itemsize: int, pivot: bool, packed: bool, device: Processors
) -> Launches:
    """Programs that share rows of `width` lanes. A team of few programs is fastest if all programs start at once; otherwise
    shorter slices are, if they are packed."""
    window = width > N
    most = _LARGEST_TEAM if device.interpreted else min(_LARGEST_TEAM, device.multiprocessors)
    at_once = M * math.ceil(width / _SLICE) <= device.multiprocessors
    few = M * math.ceil(2 * width / _SLICE) <= 8 * device.multiprocessors
    short = itemsize == 2 and (window or (not at_once and (few or pivot or not packed)))
    held = _SLICE // 2 if window or (short and math.ceil(2 * width / _SLICE) <= most) else _SLICE
    slices = math.ceil(width / held)
    if not device.together or slices > most:
        return Launches((Step("forward_kernels.twice", M, {"BLOCK": 8192, "STAGES": 1}, _warps(8192, 8, device, 32)),))
    span = 64 * math.ceil(width / slices / 64)
    slices = math.ceil(width / span)
    early = (at_once or (device.chained and packed and few and held < _SLICE)) and not window
    options = _warps(held, 16 if window and itemsize == 4 else 32, device)
    if early and not at_once:
        options["maxnreg"] = 64
    constants = {"ROWS": 1, "BLOCK": held, "PIECES": 1, "EARLY": early, "PACKED": packed, "WINDOW": window}
    constants |= {"FULL": N % span == 0 and span == held and not window, "span": span}
    constants |= {"WIDTH": power_of_two(slices), "TICKETS": M * slices > device.multiprocessors, "PHASE": 0}
    step = Step("forward_kernels.registers", M * slices, constants, options)
    return Launches(_in_phases(step, device), slices, teams=True, window=window)


def _in_phases(step: Step, device: Processors) -> tuple[Step, ...]:
    """The launch of a team. If programs run one after another, all must publish before any waits."""
    if not device.interpreted:
        return (step,)
    return tuple(step._replace(arguments=step.arguments | {"PHASE": phase}) for phase in (1, 2))


@cache
def backward_plan(
    M: int,
    N: int,
    itemsize: int,
    vector: int,
    inputs: int,
    sums: int,
    device: Processors,
    anywhere: bool = False,
) -> Launches:
    """The launches that compute the gradients of M rows of N elements of `itemsize` bytes, which are moved in vectors of
    `vector` elements. `inputs` are the matrices that are read, `sums` those over the rows, `anywhere` as in `forward_plan`."""
    few = M <= _FEW_ROWS or (M <= _FEW_LONG_ROWS and N >= 4096)
    # a team takes one launch, too
    one_row = M == 1 and N > _LONGEST_KEPT and device.chained and vector * itemsize == 16
    if few and N <= _LONGEST_ROW and not one_row:
        constants = _tile(M, N, 1, 1, _DIVIDED_BACKWARD)
        width = min(128, max(32, power_of_two(N // 128)))
        strips = math.ceil(N / width)
        numbers = {"strips": strips, "PACKED": False, "STEP": 64 if M > 32 else 32, "WIDTH": width}
        options = _warps(_elements(constants), 32, device, 8 if N * itemsize <= 2**15 else 16)
        options = max(options, _warps(128, 1, device), key=lambda each: each["num_warps"])
        return Launches((Step("backward_kernels.rows_and_columns", strips + M, constants | numbers, options),))
    width = N + 16 // itemsize - 1
    if anywhere and _SHORTEST_WINDOW <= N and width <= _LONGEST_WINDOW and device.chained:
        return _resident_anywhere(M, N, width, itemsize, sums, device)
    staged_bytes = device.shared_bytes if vector * itemsize >= 4 else 0  # a load to shared memory has at least 4 bytes
    longest = _LONGEST_KEPT // (1 if staged_bytes or sums == 1 else 2)
    longest = _LONGEST_WINDOW if anywhere and itemsize == 4 else longest
    if not one_row and (longest >= N or _packed(N, itemsize, vector, inputs, sums, staged_bytes)):
        return _resident(M, N, itemsize, inputs, sums, staged_bytes, device)
    if device.together and vector * itemsize >= 4:
        share = shares(N, itemsize, vector, inputs, 2 if one_row else sums, device)
        with suppress(Unsupported):  # otherwise the rows are read twice
            return shared_rows_plan(M, N, itemsize, sums, device, *share)
    slices = 1 if device.multiprocessors <= M else min(math.ceil(N / 4096), math.ceil(2 * device.multiprocessors / M))
    span = 64 * math.ceil(N / slices / 64)
    slices = math.ceil(N / span)
    numbers = {"span": span, "BLOCK": 4096, "STAGES": 1}
    first = Step("column_kernels.mean_slices", M * slices, numbers, _warps(4096, 8, device))
    strips = math.ceil(N / 512)
    chunk = math.ceil(M / max(1, 4 * device.multiprocessors // strips))
    parts = math.ceil(M / chunk)
    numbers = {"strips": strips, "chunk": chunk, "STEP": 8, "WIDTH": 512, "SLICES": power_of_two(slices)}
    second = Step("column_kernels.strips", strips * parts, numbers, _warps(4096, 16, device))
    return Launches((first, second, *_added(N, parts, sums, device)), slices, parts)


def _packed(N: int, itemsize: int, vector: int, inputs: int, sums: int, staged_bytes: int) -> bool:
    """Whether a program can hold a longer row because its elements stay packed, two to a register. There is no room for what
    rows of other lengths need: masks of 16384 elements, or of shorter vectors; nor, at 16384, for two sums over the rows."""
    on_the_way = 2 * power_of_two(N) * itemsize * inputs
    if sums == 2:  # the weight is on the way, too, and may be float32
        on_the_way += 2 * _LONGEST_MASKED * 4
    fits = (N == _LONGEST_ROW and sums == 1) or (N <= _LONGEST_MASKED and vector * itemsize == 16)
    return fits and itemsize == 2 and 0 < on_the_way <= staged_bytes


def _resident(M: int, N: int, itemsize: int, inputs: int, sums: int, staged_bytes: int, device: Processors) -> Launches:
    """Programs that stay, take one tile of rows after another, and keep the sums over the rows."""
    twice = 2 if N == 4096 and itemsize == 2 and device.multiprocessors * 16 >= M else 1
    constants = _tile(M, N, twice * _TILE_BACKWARD, 2 * device.multiprocessors, _DIVIDED_BACKWARD)
    packed = N > _LONGEST_KEPT  # see `_packed`
    if packed:
        block, pieces = (_LONGEST_MASKED // 3, 3) if N <= _LONGEST_MASKED else (N, 1)
        constants |= {"BLOCK": block, "PIECES": pieces, "FULL": block * pieces == N}
    count = _elements(constants)
    # measured: one program that has 16 KiB of a float32 matrix on the way, and three that have 6 KiB of a 16-bit one
    resident = 1 if count > 5120 or itemsize * count == 2**14 else 3 if 2048 < N <= 3072 and itemsize == 2 else 2
    staged = resident * 2 * count * itemsize * inputs <= staged_bytes
    # a thread that has elements of all rows of a tile adds them up before it keeps them
    together = constants["ROWS"] > 1 and constants["BLOCK"] >= count // 32 * 16 // itemsize
    ahead = not staged and staged_bytes > 0
    options = _warps(count, 16 if ahead or not (together or constants["ROWS"] == 1) else 32, device)
    tiles = math.ceil(M / constants["ROWS"])
    parts = _even(tiles, device.multiprocessors * resident)
    numbers = {"tiles": tiles, "PACKED": packed, "SUMS": together, "PDL": device.chained}
    numbers["KEEP"] = not packed or sums == 1  # else there is no room for the weight
    ways = {"AHEAD": ahead, "STAGES": 3 if staged else 1}
    step = Step("backward_kernels.resident", parts, constants | numbers | ways, options)
    return Launches((step, *_added(N, parts, sums, device)), parts=parts)


def _resident_anywhere(M: int, N: int, width: int, itemsize: int, sums: int, device: Processors) -> Launches:
    """The same for rows that begin anywhere. Rows of a program are `vector` rows apart, or a multiple of that."""
    vector = 16 // itemsize
    whole = power_of_two(width)
    block, pieces = (whole // 4, 3) if whole * 3 // 4 >= width else (whole, 1)
    count = block * pieces
    options = _warps(count, 12, device)
    resident = 16 // options["num_warps"]
    options["maxnreg"] = 128  # ptxas would take more, and the programs would not fit
    parts = vector * _even(math.ceil(M / vector), max(1, device.multiprocessors * resident // vector))
    constants = {"BLOCK": block, "PIECES": pieces, "STAGES": 3, "PACKED": False, "PDL": device.chained}
    step = Step("window_kernels.resident_anywhere", parts, constants, options)
    return Launches((step, *_added(N, parts, sums, device)), parts=parts, window=True)


def shares(
    N: int, itemsize: int, vector: int, inputs: int, sums: int, device: Processors
) -> tuple[int, int, int, int, int]:
    """How `shared_rows_plan` shares a row: `piece`, `pieces`, `warps`, `resident` and `stages`. On sm_90, ptxas keeps these
    kernels to as few registers as 384 or 512 threads of a multiprocessor have. Elsewhere there are 256 threads."""
    if not device.chained or (vector * itemsize == 4 and sums == 2):  # a mask for every 4 bytes takes registers, too
        return 2048, 1, 4, 2, 1
    if vector * itemsize == 4:
        return 2048, 1, 8, 2, 1
    if itemsize == 2:
        return (4096, 1, 8, 2, 1) if sums == 1 else (2048, 1, 4, 3, 1)
    return (4096, 1, 16, 1, 1) if N > 2**16 else (2048, 1, 8, 2, 3 if N % 2048 == 0 and inputs == 2 else 1)


def shared_rows_plan(
    M: int,
    N: int,
    itemsize: int,
    sums: int,
    device: Processors,
    piece: int,
    pieces: int,
    warps: int,
    resident: int = 1,
    stages: int = 1,
) -> Launches:
    """Programs that stay and share rows. Each has up to `pieces` blocks of `piece` elements of a row, and `resident` programs
    fit on a multiprocessor. With several `stages`, the next rows are on the way to shared memory, else one to registers. Rows
    of 16-bit elements begin at multiples of 4 bytes. Raises Unsupported if the device does not hold all programs of a row at
    once: they would wait forever."""
    slices = math.ceil(N / (piece * pieces))
    span = 64 * math.ceil(N / slices / 64)
    slices, pieces = math.ceil(N / span), math.ceil(span / piece)
    most = device.multiprocessors * resident
    if slices > most and not device.interpreted:
        raise Unsupported(f"a row of N={N} needs {slices} programs; this device holds {most} at once")
    teams = _even(M, max(1, most // slices))
    full = N % span == 0 and span == piece * pieces
    constants = {"span": span, "BLOCK": piece, "PIECES": pieces, "FULL": full, "WIDTH": power_of_two(slices)}
    constants |= {"PAIRS": 2 if itemsize == 2 else 1, "PTX": device.shared_bytes > 0, "STAGES": stages}
    constants |= {"PDL": device.chained, "PHASE": 0}
    options = {"num_warps": max(1, warps * 32 // device.warp_size)}
    if device.shared_bytes:  # on NVIDIA; a thread gets registers by eights
        options["maxnreg"] = min(255, 2**16 // (resident * warps * 32) // 8 * 8)
    step = Step("shared_rows.shared_rows", teams * slices, constants, options)
    return Launches((*_in_phases(step, device), *_added(N, teams, sums, device)), slices, teams, teams=True)


def _even(tiles: int, most: int) -> int:
    """At most this many programs, of which each gets the same number of tiles, or one fewer."""
    return math.ceil(tiles / math.ceil(tiles / most))


def _added(N: int, parts: int, sums: int, device: Processors) -> tuple[Step, ...]:
    """The launch that adds up the parts of the sums over the rows; none if there is one part."""
    if parts == 1:
        return ()
    width = 16 if N <= 2048 else 32
    chained = {"launch_pdl": True} if device.chained else {}
    constants = {"STEP": 64, "BLOCK": width, "PDL": device.chained}
    return (
        Step(
            "backward_kernels.add_up", math.ceil(N / width) * sums, constants, _warps(64 * width, 8, device) | chained
        ),
    )
