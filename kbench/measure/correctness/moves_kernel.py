# mypy: ignore-errors
"""The moves of error_scale.py as a Triton kernel: one pass over values where torch takes eight."""

import triton
import triton.language as tl


@triton.jit
def _move(values, terms, random, places, count, UNIT: tl.constexpr, TERMS: tl.constexpr):
    inside = places < count
    x = tl.load(values + places, inside, other=0.0)
    factor = random.to(tl.int32, bitcast=True).to(tl.float64) * UNIT + 1.0
    result = (x * factor).to(tl.float32).to(tl.float64)
    moves = x.to(tl.float32).to(tl.float64) != x
    if TERMS:
        term = tl.load(terms + places, inside, other=0.0)
        cancelled = (x == 0.0) & (tl.floor(term) != term)
        result = tl.where(cancelled, (term * factor).to(tl.float32).to(tl.float64) - term, result)
        moves |= cancelled
    tl.store(values + places, result, inside & moves)


@triton.jit(do_not_specialize=["seed", "count"])
def move(values, terms, seed, count, UNIT: tl.constexpr, TERMS: tl.constexpr, PART: tl.constexpr):
    """Moves, in place, those of `count` float64 numbers that float32 cannot hold, by up to 2^31 UNIT of themselves. With TERMS,
    the numbers are sums; those that are 0 move by as much as a term that is no whole number. Grid: ceil(count / (4 PART))."""
    first = tl.program_id(0).to(tl.int64) * PART + tl.arange(0, PART)
    a, b, c, d = tl.randint4x(seed, first)
    places = first + tl.program_id(0).to(tl.int64) * (3 * PART)
    _move(values, terms, a, places, count, UNIT, TERMS)
    _move(values, terms, b, places + PART, count, UNIT, TERMS)
    _move(values, terms, c, places + 2 * PART, count, UNIT, TERMS)
    _move(values, terms, d, places + 3 * PART, count, UNIT, TERMS)
