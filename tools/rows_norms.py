"""Trial launches of the norms' forward pass, for rows_candidates.py, where its dispatch was slower than a peer or than other
launches on an H200: layernorm with float32 rows of 64 KiB, rows of a megabyte, and 16-bit rows beside float32 weights.

Most of them run the kernels of rows_kernels.py and rows_team_kernels.py. All their names begin with "trial".
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from typing import Any

from kbench.kernels.norms.dispatch.launches import Launches, Processors, Step, even_programs, in_phases
from kbench.kernels.triton_rows import power_of_two

Trials = Iterator[tuple[str, Launches]]


def kernel(name: str) -> Any:
    """A kernel by the name that a plan has for it: one of this folder, or of `kbench/kernels/norms/`."""
    module, _, function = name.partition(".")
    own = importlib.import_module(module if module.startswith("rows_") else f"kbench.kernels.norms.{module}")
    return getattr(own, function)


def trials(operator: str, M: int, N: int, itemsize: int, wide: bool, device: Processors) -> Trials:
    """Launches that normalise M rows of N elements of `itemsize` bytes, with their names. `wide` is whether weights have more
    bytes than the elements of the rows."""
    fits = device.multiprocessors >= N / 4096 and (N % 8192 == 0 or (N % 64 == 0 and device.chained))
    if N >= 2**17 and fits and not wide:
        yield from _megabyte(M, N, itemsize, device)
    elif operator == "layernorm" and N == 2**14 and itemsize == 4:
        yield from _long_float32(M, N, device)
    elif operator == "layernorm" and N == 2**14 and wide:
        yield from _long_wide(M, N, device)
    elif operator == "layernorm" and N == 2**10 and wide:
        yield from _short_wide(M, N, device)


HINT = "evict_last"


def _long_float32(M: int, N: int, device: Processors) -> Trials:
    """layernorm in float32, 64 KiB a row. The dispatch has one program on a multiprocessor, of 512 threads with 128 registers:
    nothing is on the way while it reduces and writes."""
    for second in ("evict_first", ""):
        plan = twice_unrolled(M, N, 4, 32, (HINT, second, HINT), 32, device)
        yield f"trial twice, unrolled, 32 warps{', then no hint' * (not second)}", plan
    for warps, stages in ((_most_warps(device), 3), (16, 3 if device.chained else 2)):
        yield f"trial in turn, {warps} warps, {stages} stages", in_turn(M, N, 4, 1, warps, 1, stages, device)
    cap = _least_cap(device)
    yield f"trial slices of 8192, 4 pieces, cap {cap}, hint", shared(M, N, (2048, 4, 0), cap, HINT, device)
    yield "trial teams in turn, 4096, 8 warps, ahead", teams(M, N, 4, 4096, 8, 2, 1, device)


def _megabyte(M: int, N: int, itemsize: int, device: Processors) -> Trials:
    """Programs that share a row. In float32, the dispatch's have 66 to 80 registers, so three of them are on a multiprocessor.
    With 64 there are four. They read the weights anew for each row, and wait for each other with nothing on the way."""
    cap = _least_cap(device)
    yield f"trial slices of 8192, 4 pieces, cap {cap}", shared(M, N, (2048, 4, 0), cap, "", device)
    yield f"trial slices of 8192, 4 pieces, cap {cap}, hint", shared(M, N, (2048, 4, 0), cap, HINT, device)
    yield "trial slices of 8192, 4 pieces, early, cap 80", shared(M, N, (2048, 4, 1), 80, HINT, device)
    yield "trial teams in turn, 4096, 8 warps, ahead", teams(M, N, itemsize, 4096, 8, 2, 1, device)
    yield "trial teams in turn, 4096, 8 warps, 3 stages", teams(M, N, itemsize, 4096, 8, 2, 3, device)
    yield "trial teams in turn, 8192, 16 warps, 3 stages", teams(M, N, itemsize, 8192, 16, 1, 3, device)


def _long_wide(M: int, N: int, device: Processors) -> Trials:
    """layernorm in 16 bits, 32 KiB a row, beside 128 KiB of weights in float32. Of each access to the weights, the dispatch's
    threads use half of every line, and they wait for them three times after they have reduced a row."""
    warps = _most_warps(device)
    yield f"trial in turn, {warps} warps, 4 stages", in_turn(M, N, 2, 1, warps, 1, 4, device)
    for past in (False, True):
        plan = held(M, N, 1, 4, 16, 64, device, 4, past)
        yield f"trial near{', past L1' * past}, 4 pieces, cap 64", plan
    yield "trial near, 2 rows, 4 pieces, cap 64", held(M, N, 2, 4, 32, 64, device, 4)
    yield (
        "trial twice, unrolled, 16 warps, cap 40",
        twice_unrolled(M, N, 2, 16, (HINT, "evict_first", HINT), 40, device),
    )
    yield "trial teams in turn, 4096, 8 warps, ahead", teams(M, N, 2, 4096, 8, 2, 1, device)


def _short_wide(M: int, N: int, device: Processors) -> Trials:
    """layernorm in 16 bits, 2 KiB a row, beside 8 KiB of weights in float32, which the dispatch loads for every row."""
    for rows, cap in ((1, 64), (2, 72), (4, 88)):
        yield f"trial near, {rows} rows, 2 warps, cap {cap}", held(M, N, rows, 1, 2, cap, device, 4)
    yield "trial 2 rows, 2 warps, cap 72", held(M, N, 2, 1, 2, 72, device)
    for rows, resident in ((1, 14), (2, 11)):
        yield f"trial in turn, {rows} rows, 2 warps, 3 stages", in_turn(M, N, 2, rows, 2, resident, 3, device)


def _most_warps(device: Processors) -> int:
    """The warps of a program that keeps the weights in registers. On sm_80, it would spill with 32."""
    return 32 if device.chained else 16


def _least_cap(device: Processors) -> int:
    """The registers with which 256 threads hold 8192 elements. On sm_80, they would spill with 64."""
    return 64 if device.chained else 72


def _packed(itemsize: int, device: Processors) -> bool:
    """Whether rows stay in 16 bits in registers, which takes PTX."""
    return itemsize == 2 and device.shared_bytes > 0


def _tile(N: int, rows: int, pieces: int) -> dict[str, Any]:
    block = power_of_two(N) // pieces
    return {"ROWS": rows, "BLOCK": block, "PIECES": pieces, "FULL": block * pieces == N}


def _options(warps: int, cap: int, device: Processors) -> dict[str, int]:
    """Warps of 32 threads, and a limit of registers, which NVIDIA's compiler takes."""
    limit = {"maxnreg": cap} if cap and device.shared_bytes else {}
    return {"num_warps": max(1, warps * 32 // device.warp_size)} | limit


def _fitting(resident: int, warps: int) -> int:
    """The registers of a thread with which `resident` programs fit on a multiprocessor."""
    return min(255, 2**16 // (resident * warps * 32) // 8 * 8)


def twice_unrolled(
    M: int, N: int, itemsize: int, warps: int, hints: tuple[str, str, str], cap: int, device: Processors
) -> Launches:
    """One program for each row, which reads it twice with 16 bytes in a thread at a time. The hints are for the first time, the
    second time and the weights."""
    block = warps * 512 // itemsize
    numbers = {"BLOCK": block, "PIECES": math.ceil(N / block), "FULL": N % block == 0}
    numbers |= dict(zip(("FIRST", "SECOND", "POLICY"), hints, strict=True))
    return Launches((Step("rows_kernels.twice_unrolled", M, numbers, _options(warps, cap, device)),))


def held(
    M: int, N: int, rows: int, pieces: int, warps: int, cap: int, device: Processors, near: int = 16, past: bool = False
) -> Launches:
    """Rows in 16 bits that a program holds. The weights of the first block are loaded before the rows are reduced."""
    numbers = _tile(N, rows, pieces) | {"NEAR": near, "EARLY": 1, "PACKED": _packed(2, device), "PAST": past}
    return Launches((Step("rows_kernels.held", math.ceil(M / rows), numbers, _options(warps, cap, device)),))


def in_turn(
    M: int, N: int, itemsize: int, rows: int, warps: int, resident: int, stages: int, device: Processors
) -> Launches:
    """Programs that stay, `resident` on a multiprocessor, and keep the weights in registers."""
    tiles = math.ceil(M / rows)
    programs = even_programs(tiles, device.multiprocessors * resident)
    numbers = _tile(N, rows, 1) | {"NEAR": 16, "PACKED": _packed(itemsize, device), "tiles": tiles}
    numbers["STAGES"] = stages if device.shared_bytes else 1
    options = _options(warps, _fitting(resident, warps), device)
    return Launches((Step("rows_kernels.in_turn", programs, numbers, options),))


def shared(M: int, N: int, blocks: tuple[int, int, int], cap: int, hint: str, device: Processors) -> Launches:
    """Programs of 256 threads that share a row, as those of the dispatch do, in other blocks: their elements, how many a
    program has, and those whose weights are loaded early."""
    block, pieces, early = blocks
    span = block * pieces
    slices = math.ceil(N / span)
    numbers = {"ROWS": 1, "BLOCK": block, "PIECES": pieces, "FULL": N % span == 0, "EARLY": early, "PACKED": False}
    numbers |= {"WIDTH": power_of_two(slices), "TICKETS": M * slices > device.multiprocessors, "PHASE": 0}
    numbers |= {"POLICY": hint, "span": span, "WINDOW": False}
    step = Step("forward_kernels.registers", M * slices, numbers, _options(8, cap, device))
    return Launches(in_phases(step, device), slices, teams=True)


def teams(
    M: int, N: int, itemsize: int, span: int, warps: int, resident: int, stages: int, device: Processors
) -> Launches:
    """Teams of programs that stay, `resident` on a multiprocessor, and keep their part of the weights in registers. All are
    there at once, or they would wait forever."""
    slices = math.ceil(N / span)
    programs = even_programs(M, max(1, device.multiprocessors * resident // slices)) * slices
    stages = stages if device.shared_bytes else 1
    numbers = {"BLOCK": span // 2, "PIECES": 2, "FULL": N % span == 0, "span": span}
    numbers |= {"WIDTH": max(32, power_of_two(slices))}  # every lane of a warp waits for a program
    numbers |= {"KEEP": True, "PACKED": _packed(itemsize, device), "STAGES": stages, "PTX": stages > 1, "PHASE": 0}
    options = _options(warps, _fitting(resident, warps), device)
    step = Step("rows_team_kernels.teams_in_turn", programs, numbers, options)
    return Launches(in_phases(step, device), slices, teams=True)
