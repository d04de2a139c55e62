"""Draws shapes that no author has tuned for: small and odd sizes, equal sizes, sizes just beside powers of two."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kbench.contract.sizes import SizeError
from kbench.protocol import OperatorInfo
from kbench.results.case import Case

SIZES = (
    *(1, 2, 3, 5, 7, 8, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129),
    *(255, 256, 257, 511, 777, 1000, 1024, 1025),
)
LONG_SIZES = (2047, 2048, 2049, 4095, 4096, 5000, 8191, 8192, 8200)

DEVICE_BYTES, HOST_BYTES = 2**26, 2**18
"""The most bytes that the inputs and outputs of a case have together: on a device, and on a host, where Triton's interpreter is
slow."""

EQUAL = 0.25
"""The share of shapes in which all axes are equal. Code that tells axes apart by their size is wrong at such shapes only."""

ATTEMPTS = 50
"""Draws per shape. Not every shape is allowed: sizes such as `N/2` need an even N."""


def draw_shapes(info: OperatorInfo, cases: Sequence[Case], count: int, *, seed: int, accelerated: bool) -> list[Case]:
    """Up to `count` different cases. Dtypes, scalars, choices and modes are those of `cases`."""
    generator = random.Random(f"{seed}/shapes")
    largest_bytes = DEVICE_BYTES if accelerated else HOST_BYTES
    drawn: dict[Any, Case] = {}
    for _ in range(count * ATTEMPTS):
        if len(drawn) == count:
            break
        like = generator.choice(cases)
        sizes = _draw_sizes(info.axes, generator, accelerated)
        case = replace(like, axes={**like.axes, **sizes})
        if _fits(info, case, largest_bytes):
            drawn.setdefault(case, case)
    return list(drawn.values())


def _draw_sizes(axes: Sequence[str], generator: random.Random, accelerated: bool) -> dict[str, int]:
    pool = SIZES + LONG_SIZES if accelerated else SIZES
    if generator.random() < EQUAL:
        return dict.fromkeys(axes, generator.choice(SIZES))
    return {axis: generator.choice(pool) for axis in axes}


def _fits(info: OperatorInfo, case: Case, largest_bytes: int) -> bool:
    try:
        return info.tensor_bytes(case) <= largest_bytes
    except SizeError:
        return False
