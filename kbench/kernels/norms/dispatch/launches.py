"""What a plan of launches is made of, and the numbers that both directions need."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from kbench.kernels.triton_launch import KEPT_CACHES, power_of_two

LARGE_BYTES = 120 * 2**20
"""Of one input. Hints for the caches were measured with 2^26 elements: 128 MiB in 16 bits, or a little less if the number of
rows is rounded down. Smaller matrices were not measured."""


class Processors(NamedTuple):
    """What the dispatch asks of a device.

    `shared_bytes` is how much shared memory a program can have for loads on the way; 0 if loads do not go there. `chained` is
    whether a launch can start before the one before it ends. `together` is whether programs can wait for each other, and
    `interpreted` whether they run one after another. `cache_bytes` are those of the L2 cache.
    """

    multiprocessors: int
    warp_size: int
    shared_bytes: int
    chained: bool
    together: bool = True
    interpreted: bool = False
    cache_bytes: float = 60 * 2**20

    @property
    def large_bytes(self) -> float:
        """Inputs of so many bytes or more are read with hints for the caches."""
        return max(LARGE_BYTES, KEPT_CACHES * self.cache_bytes)


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


ALONE: dict[str, Any] = {"WIDTH": 1, "TICKETS": False, "PHASE": 0, "words": None, "slices": 1, "span": 0}
"""Arguments of `forward_kernels.registers` if a program does not share its rows with others."""

LONGEST_ROW = 16384
"""Elements of a row that one program holds."""


def row_blocks(N: int, divided: int) -> tuple[int, int]:
    """The block in which a row is held, and how many of them: one power of two or, if that is at least `divided`, three
    quarters or five eighths of it."""
    whole = power_of_two(N)
    if whole >= divided and whole * 5 // 8 >= N:
        return whole // 8, 5
    if whole >= divided and whole * 3 // 4 >= N:
        return whole // 4, 3
    return whole, 1


def tile_numbers(M: int, N: int, most: int, programs: int, divided: int) -> dict[str, Any]:
    """Constants of a tile of whole rows: as many rows as make up `most` elements, if at least so many programs remain."""
    block, pieces = row_blocks(N, divided)
    rows = max(1, min(power_of_two(most) // (block * pieces), M // programs))
    rows = 1 << (rows.bit_length() - 1)
    return {"ROWS": rows, "BLOCK": block, "PIECES": pieces, "FULL": M % rows == 0 and block * pieces == N}


def tile_elements(constants: dict[str, Any]) -> int:
    return int(constants["ROWS"] * constants["BLOCK"] * constants["PIECES"])


def warps_for(count: int, each: int, device: Processors, most: int = 16) -> dict[str, int]:
    """As many warps as give a thread at most `each` of `count` elements, up to `most` warps of 32 threads."""
    threads = min(power_of_two(math.ceil(count / each)), most * 32)
    return {"num_warps": max(1, threads // device.warp_size)}


def in_phases(step: Step, device: Processors) -> tuple[Step, ...]:
    """The launch of a team. If programs run one after another, all must publish before any waits."""
    if not device.interpreted:
        return (step,)
    return tuple(step._replace(arguments=step.arguments | {"PHASE": phase}) for phase in (1, 2))


def even_programs(tiles: int, most: int) -> int:
    """At most this many programs, of which each gets the same number of tiles, or one fewer."""
    return math.ceil(tiles / math.ceil(tiles / most))
