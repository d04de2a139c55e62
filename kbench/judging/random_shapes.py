"""Draws shapes that no author has tuned for: tiny, odd, prime and even sizes, sizes beside powers of two, equal sizes; and one
shape with more elements than 32 bits count."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from kbench.contract.sizes import SizeError
from kbench.protocol import OperatorInfo
from kbench.results.case import FORWARD, Case

DEVICE_BYTES, HOST_BYTES = 2**26, 2**18
"""The most bytes that the inputs and outputs of a case have together: on a device, and on a host, where Triton's interpreter is
slow."""

DEVICE_SIZE, HOST_SIZE = 2**14, 2**10
"""About the largest size of an axis on a device and on a host."""

TINY = 8
"""The largest size that counts as tiny."""

EQUAL = 0.25
"""The share of shapes in which all axes are equal. Code that tells axes apart by their size is wrong at such shapes only."""

ATTEMPTS = 50
"""Draws per shape. Not every shape is allowed: sizes such as `N/2` need an even N."""

INT32_END = 2**31
"""The first number that 32 bits with a sign cannot hold."""

MEMORY_SHARE = 0.75
"""The most that the shape beyond 2^31 elements needs of the device's memory."""


def draw_shapes(info: OperatorInfo, cases: Sequence[Case], number: int, *, seed: int, accelerated: bool) -> list[Case]:
    """Up to `number` different cases. Dtypes, scalars, choices and modes are those of `cases`."""
    generator = random.Random(f"{seed}/shapes")
    largest_bytes, largest_size = (DEVICE_BYTES, DEVICE_SIZE) if accelerated else (HOST_BYTES, HOST_SIZE)
    drawn: dict[Case, None] = {}  # a set in the order of drawing
    for _ in range(number * ATTEMPTS if info.axes else 0):
        if len(drawn) == number:
            break
        like = generator.choice(cases)
        sizes = {axis: _draw_size(generator, largest_size) for axis in info.axes}
        if generator.random() < EQUAL:
            sizes = dict.fromkeys(info.axes, _draw_size(generator, largest_size))
        case = replace(like, axes={**like.axes, **sizes})
        if 0 < _bytes(info, case) <= largest_bytes:
            drawn[case] = None
    return list(drawn)


def _draw_size(generator: random.Random, largest: int) -> int:
    """A size of one of seven kinds, which are equally likely."""
    size = round(2 ** generator.uniform(math.log2(TINY), math.log2(largest)))
    power = 1 << (size.bit_length() - 1)
    prime = next(n for n in count(size) if all(n % divisor for divisor in range(2, math.isqrt(n) + 1)))
    beside = power + generator.choice((-1, 1))
    tiny = generator.randint(1, TINY)
    return generator.choice((tiny, prime, size | 1, size + size % 2, power, beside, size - size % 8))


def draw_beyond_int32(info: OperatorInfo, cases: Sequence[Case], memory_bytes: int | None, *, seed: int) -> Case | None:
    """A case whose largest tensor has a little more than 2^31 elements, along the first axis, in the shortest dtype. None if
    the device has too little memory for it, or does not tell."""
    generator = random.Random(f"{seed}/beyond 2^31")
    like = min(cases, key=lambda case: (case.mode != FORWARD, case.itemsize))
    if not info.axes:
        return None
    first, *others = info.axes
    axes = {**like.axes, **{axis: 8 * generator.randint(128, 512) for axis in others}}
    tensors = [*info.inputs.values(), *info.outputs.values()]
    try:
        small, larger = (
            [math.prod(tensor.shape_in(replace(like, axes={**axes, first: size}))) for tensor in tensors]
            for size in (8, 16)
        )
    except SizeError:
        return None
    elements_per_size = max(after - before for before, after in zip(small, larger, strict=True)) / 8
    if elements_per_size <= 0:
        return None
    case = replace(like, axes={**axes, first: 8 * (math.ceil(INT32_END / elements_per_size / 8) + 1)})
    limit = MEMORY_SHARE * (memory_bytes or 0)
    return case if _bytes(info, case) and info.needed_bytes(case) <= limit else None


def _bytes(info: OperatorInfo, case: Case) -> int:
    """The bytes of the tensors of a case; 0 if a tensor has no shape."""
    try:
        return info.tensor_bytes(case)
    except SizeError:
        return 0
