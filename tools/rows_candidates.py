"""Other launches than the dispatches choose, for measuring_rows.py: other threads, tiles, slices, stages, and blocks for a row.

Each is a name, a provider, and a function that makes a context in which the provider takes this launch.
"""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Any

import torch
from rows_norms import trials
from rows_slices import held_launches, loss_launches

from kbench.contract.provider import Unsupported
from kbench.kernels.norms import launch
from kbench.kernels.norms.dispatch.launches import (
    ALONE,
    Launches,
    Processors,
    Step,
    even_programs,
    in_phases,
    row_blocks,
)
from kbench.kernels.norms.dispatch.shared import Sharing, adding_up, shared_rows_plan
from kbench.kernels.norms.dispatch.twice import read_twice
from kbench.kernels.triton_rows import power_of_two

Candidate = tuple[str, str, Callable[[], AbstractContextManager[None]]]

NORMS = {"rmsnorm": (2, 1), "add_rmsnorm": (3, 1), "layernorm": (2, 2)}
"""Matrices that the backward pass reads, and its sums over the rows."""

GROUPS = ((8, 1), (8, 3), (16, 1), (16, 3), (32, 1), (32, 2), (32, 3))
"""Threads of a warp that share a row, and the accesses of each, for which there are CUDA kernels."""


def candidates_of(row: dict[str, Any], words: Sequence[str] = ()) -> Iterator[Candidate]:
    """Those whose names contain one of the words, or all."""
    return (each for each in _candidates_of(row) if not words or any(word in each[0] for word in words))


def _candidates_of(row: dict[str, Any]) -> Iterator[Candidate]:
    operator, mode = row["operator"], row["mode"]
    itemsize = getattr(torch, row["dtype"]).itemsize
    if operator in NORMS and mode in ("forward", "backward"):
        name = "forward_plan" if mode == "forward" else "backward_plan"
        plans = forward_plans if mode == "forward" else backward_plans
        for label, plan in plans(operator, row["M"], row["N"], itemsize, launch._processors(_device())):
            yield label, "triton", partial(replaced, launch, name, partial(_always, plan))
        if mode == "forward":
            wide = getattr(torch, row.get("weight_dtype", row["dtype"])).itemsize > itemsize
            for label, plan in trials(operator, row["M"], row["N"], itemsize, wide, launch._processors(_device())):
                yield label, "triton", partial(replaced, launch, name, partial(_always, plan))
        yield from _ways(operator, mode, row["N"], itemsize)
        return
    here = {
        ("cross_entropy", "forward"): ("losses_launch", loss_launches),
        ("cross_entropy", "full"): ("both_launch", partial(held_launches, True)),
        ("softmax", "backward"): ("backward_launch", partial(held_launches, False)),
    }
    if (operator, mode) in here:
        name, launches = here[operator, mode]
        module = importlib.import_module(f"kbench.operators.{operator}.providers_triton")
        for label, make in launches(row["M"], row["N"], itemsize):
            yield label, "triton", partial(replaced, module, name, make)
    if (operator, mode) in (("cross_entropy", "full"), ("softmax", "backward")):
        yield from _ways(operator, mode, row["N"], itemsize)


def _device() -> torch.device:
    return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")


def _always(value: Any, *_: Any) -> Any:
    return value


@contextmanager
def replaced(module: Any, name: str, value: Any) -> Iterator[None]:
    own = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, own)


Plans = Iterator[tuple[str, Launches]]


def _tile(M: int, N: int, rows: int, block: int, pieces: int) -> dict[str, Any]:
    return {"ROWS": rows, "BLOCK": block, "PIECES": pieces, "FULL": M % rows == 0 and block * pieces == N}


def forward_plans(operator: str, M: int, N: int, itemsize: int, device: Processors) -> Plans:
    odd = 2 * math.gcd(16 // itemsize, N) < 16 // itemsize
    if N > 16384:
        for slice_, each, early, packed, cap in (
            (8192, 32, False, False, 0),
            (8192, 32, False, True, 0),
            (8192, 32, False, True, 48),
            (8192, 32, True, True, 64),
            (4096, 32, False, True, 0),
            (4096, 32, True, True, 64),
            (4096, 16, False, False, 0),
            (16384, 32, False, True, 0),
            (16384, 32, True, True, 64),
        ):
            if itemsize == 2 or not packed:
                label = f"slices of {slice_}, {each} a thread{', early' * early}{', packed' * packed}, cap {cap}"
                yield label, _split(M, N, slice_, each, early, packed, cap, odd, device)
        yield from twice_plans(M, N, itemsize)
        return
    if not odd:
        yield from twice_plans(M, N, itemsize)
        yield from ahead_plans(M, N, itemsize)
    few = device.multiprocessors * 4 > M
    width = N + 16 // itemsize - 1 if odd else N
    natural = row_blocks(width, 512)
    ways = [(32, False, False, 0), (32, False, True, 0), (32, False, True, 48)]  # elements, EARLY, PACKED, maxnreg
    if natural[1] > 1:
        ways += [(48, False, False, 80), (48, False, True, 0), (48, False, True, 64), (16, False, False, 0)]
    else:
        ways += [] if few else [(64, False, True, 0)]
        ways += [
            (8, True, False, 0),
            (16, True, False, 0),
            (16, True, True, 40),
            (16, True, True, 56),
            (32, True, False, 0),
            (32, True, True, 64),
        ]
    for rows, (each, early, packed, cap) in itertools.product((1, 2), ways):
        count = rows * natural[0] * natural[1]
        warps = power_of_two(math.ceil(count / each / 32))
        if (
            (rows > 1 and (few or count > 2048 or odd))
            or warps > 32
            or (packed and itemsize == 4)
            or warps * cap > 1024
        ):
            continue
        numbers = _tile(M, width, rows, *natural) | {"EARLY": int(early), "PACKED": packed, "WINDOW": odd} | ALONE
        numbers["FULL"] = numbers["FULL"] and not odd
        options = {"num_warps": warps} | ({"maxnreg": cap} if cap else {})
        step = Step("forward_kernels.registers", math.ceil(M / rows), numbers, options)
        label = (
            f"{rows} x {natural[0]} x {natural[1]}, {warps} warps{', early' * early}{', packed' * packed}, cap {cap}"
        )
        yield label, Launches((step,), window=odd)


def twice_plans(M: int, N: int, itemsize: int) -> Plans:
    """One access of 16 bytes in a thread at a time."""
    for warps, policies in itertools.product((8, 16, 32), (("", ""), ("evict_last", "evict_first"))):
        block = 32 * warps * 16 // itemsize
        if block <= N and (warps > 8 or 2 * block > N):
            yield f"twice, {warps} warps{', evict' * bool(policies[0])}", read_twice(M, N, block, warps, *policies)


def ahead_plans(M: int, N: int, itemsize: int) -> Plans:
    """Blocks in which a thread has 16 bytes, and the weights of a block are loaded one or two blocks before they are needed."""
    for pieces, ahead in ((2, 1), (3, 1), (4, 1), (4, 2), (5, 1)):
        block = power_of_two(N) // (4 if pieces == 3 else 8 if pieces == 5 else pieces)
        warps = block * itemsize // 512
        if not block * (pieces - 1) < N <= block * pieces or not 1 <= warps <= 32:
            continue
        numbers = _tile(M, N, 1, block, pieces) | {"EARLY": ahead, "PACKED": itemsize == 2, "WINDOW": False} | ALONE
        step = Step("forward_kernels.registers", M, numbers, {"num_warps": warps})
        yield f"ahead {ahead}, 1 x {block} x {pieces}, {warps} warps", Launches((step,))


def _split(
    M: int, N: int, slice_: int, each: int, early: bool, packed: bool, cap: int, odd: bool, device: Processors
) -> Launches:
    width = N + 15 if odd else N
    slices = math.ceil(width / slice_)
    span = 64 * math.ceil(width / slices / 64)
    slices = math.ceil(width / span)
    constants = {"ROWS": 1, "BLOCK": slice_, "PIECES": 1, "EARLY": int(early), "PACKED": packed, "WINDOW": odd}
    constants |= {"FULL": N % span == 0 and span == slice_, "WIDTH": power_of_two(slices)}
    constants |= {"TICKETS": M * slices > device.multiprocessors, "PHASE": 0, "span": span}
    options = {"num_warps": max(1, slice_ // each // 32)} | ({"maxnreg": cap} if cap else {})
    step = Step("forward_kernels.registers", M * slices, constants, options)
    return Launches(in_phases(step, device), slices, teams=True, window=odd)


def backward_plans(operator: str, M: int, N: int, itemsize: int, device: Processors) -> Plans:
    inputs, sums = NORMS[operator]
    odd = 2 * math.gcd(16 // itemsize, N) < 16 // itemsize
    if odd and 1024 <= N <= 6137 and M > 512:
        yield from _anywhere(M, N, itemsize, sums, device)
    if M <= 1024 and N <= 16384:
        for each, step_rows, width in (
            (32, 32, 32),
            (32, 64, 64),
            (32, 64, 128),
            (16, 64, 64),
            (16, 32, 128),
            (16, 128, 32),
        ):
            warps = max(4, min(16, power_of_two(N) // each // 32))
            strips = math.ceil(N / width)
            numbers = _tile(M, N, 1, power_of_two(N), 1) | {"strips": strips, "PACKED": False}
            numbers |= {"STEP": step_rows, "WIDTH": width}
            step = Step("backward_kernels.rows_and_columns", strips + M, numbers, {"num_warps": warps})
            yield f"rows and columns, {step_rows} x {width}, {warps} warps", Launches((step,))
    if N <= 16384 and not odd:
        block, pieces = row_blocks(N, 4096)
        least = max(1, 4096 // (block * pieces))
        packed = N > 8192
        ways = [(least, each, resident, 3) for each, resident in ((32, 2), (16, 2), (32, 1), (32, 3))]
        ways += [(least, 32, 2, 4), (least, 32, 1, 4), (2 * least, 32, 1, 3), (max(1, least // 2), 32, 3, 3)]
        for rows, each, resident, stages in ways:
            count = rows * block * pieces
            on_the_way = resident * (stages - 1) * count * itemsize * inputs
            if (
                on_the_way > max(1, device.shared_bytes)
                or count > 16384
                or (rows > 1 and device.multiprocessors * rows > M)
            ):
                continue
            tiles = math.ceil(M / rows)
            parts = even_programs(tiles, device.multiprocessors * resident)
            numbers = _tile(M, N, rows, block, pieces) | {"tiles": tiles, "KEEP": True, "PACKED": packed}
            numbers |= {"SUMS": rows > 1, "PDL": device.chained, "AHEAD": False, "STAGES": stages}
            warps = min(32, power_of_two(count // each // 32))
            step = Step("backward_kernels.resident", parts, numbers, {"num_warps": max(1, warps)})
            label = f"{rows} x {block} x {pieces}, {warps} warps, {stages} stages, {resident} resident"
            yield label, Launches((step, *adding_up(N, parts, sums, device)), parts=parts)
    if odd or N <= 8192:
        return
    for way in LONG_ROWS[itemsize]:
        with suppress(Unsupported):
            label = "shared by programs, {1} x {0}, {2} warps, {3} resident, {4} stages, {5} rows".format(*way)
            yield label, shared_rows_plan(M, N, itemsize, sums, device, way)


LONG_ROWS = {
    2: [
        Sharing(1024, 4, 4, 2),
        Sharing(1024, 3, 4, 2),
        Sharing(1024, 2, 4, 3, stages=3),
        Sharing(2048, 1, 4, 3),
        Sharing(4096, 1, 8, 2),
        Sharing(1024, 1, 4, 2, rows=2),
        Sharing(1024, 1, 4, 2, rows=4),
    ],
    4: [Sharing(2048, 1, 8, 2), Sharing(2048, 1, 8, 2, stages=3), Sharing(1024, 1, 4, 4), Sharing(4096, 1, 16)],
}
"""By itemsize, how programs may share long rows."""


def _anywhere(M: int, N: int, itemsize: int, sums: int, device: Processors) -> Plans:
    vector = 16 // itemsize
    block, pieces = row_blocks(N + vector - 1, 512)
    for warps, cap, resident, packed, stages in (
        (16, 128, 1, False, 3),
        (8, 255, 1, False, 3),
        (8, 168, 1, True, 3),
        (8, 128, 2, True, 3),
        (4, 255, 2, False, 3),
        (4, 255, 2, True, 3),
        (4, 168, 3, False, 3),
        (4, 255, 2, False, 4),
        (2, 255, 4, False, 3),
        (2, 168, 6, False, 3),
        (1, 255, 8, False, 3),
    ):
        each = block * pieces / warps / 32
        if not 10 <= each <= 40 or each * sums > cap // 3:
            continue
        parts = vector * even_programs(math.ceil(M / vector), device.multiprocessors * resident // vector)
        numbers = {"BLOCK": block, "PIECES": pieces, "STAGES": stages, "PACKED": packed, "PDL": device.chained}
        step = Step("window_kernels.resident_anywhere", parts, numbers, {"num_warps": warps, "maxnreg": cap})
        label = f"anywhere, {warps} warps, {cap} registers, {resident} resident, {stages} stages{', packed' * packed}"
        yield label, Launches((step, *adding_up(N, parts, sums, device)), parts=parts, window=True)


def _ways(operator: str, mode: str, N: int, itemsize: int) -> Iterator[Candidate]:
    """Ways in which the CUDA kernels can share a row."""
    module = importlib.import_module(f"kbench.operators.{operator}.providers_cuda")
    backward = mode == "backward"
    in_turn = backward and operator != "softmax"  # persistent blocks, which take the rows in turn
    source = getattr(module, "BACKWARD_SOURCE" if backward else "SOURCE", None)
    if source is None:
        return
    bound = getattr(getattr(module, "_backward_kernel" if backward else "_kernel", None), "cache_clear", lambda: None)
    accesses, reads = N * itemsize / 16, 2 if backward or operator == "add_rmsnorm" else 1
    ways: list[dict[str, int]] = []
    if not in_turn:
        ways += [{"group": g, "packs": p} for g, p in GROUPS if accesses <= g * p < 4 * accesses]
    for packs, blocks in itertools.product((1, 2, 4) if in_turn else (1, 2, 4, 8), (1, 2, 4, 8, 16)):
        threads = accesses / packs / blocks
        if threads > (512 if in_turn else 1024) or threads < (64 if blocks > 1 else 32) or packs * reads > 8:
            continue
        ways.append({"packs": packs, "blocks": blocks})
        if not backward and packs <= 2:
            ways.append({"packs": packs, "blocks": blocks, "keep": 1})
        if in_turn and blocks == 1:
            ways += [
                {"packs": packs, "blocks": 1, "together": t, "joined": j}
                for t in (1, 2, 4, 8)
                for j in (1, 8)
                if t * threads <= 512 and (t * threads >= 256 or t == 1)
            ]
    for options in ways:
        label = " ".join(f"{name}={value}" for name, value in options.items())
        yield label, "cuda", partial(_with_options, source, bound, options)


@contextmanager
def _with_options(source: Any, forget: Callable[[], None], options: dict[str, int]) -> Iterator[None]:
    """Kernels of a CUDA source get these options, too. `forget` drops those that are bound already."""
    bind = source.kernel
    source.kernel = lambda name, **given: bind(name, **{**given, **options})
    forget()
    try:
        yield
    finally:
        source.kernel = bind
        forget()
