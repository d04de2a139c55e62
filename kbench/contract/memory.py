"""The memory of a case: how much of it a worker may keep, and the least that a case needs.

A worker holds three sets of inputs and a copy of one set, the outputs of two calls, and the expected outputs for each of the
three sets, if they fit: float64 values, and the scales of their errors. Providers and references need more for themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

from kbench.contract.layout import Layout, total_bytes
from kbench.results.case import FLOATING, ITEMSIZE, Case

INPUT_SETS, OUTPUT_SETS, EXPECTED_SETS = 4, 2, 3

KEPT_BYTES = 2**26
"""Expected outputs of one set of inputs are kept if they take at most this many bytes, however little memory is free."""

KEPT_SHARE = 0.25
"""Share of the free memory that the expected outputs of a case may take. kbench computes them once, and again for each check
if they do not fit."""


def keep_bytes(free_bytes: int | None) -> int:
    """How many bytes of expected outputs a worker may keep for one set of inputs. `free_bytes` is None if not known."""
    return max(KEPT_BYTES, int((free_bytes or 0) * KEPT_SHARE) // EXPECTED_SETS)


def least_bytes(inputs: Sequence[Layout], outputs: Sequence[Layout], case: Case) -> int:
    """The least free memory, in bytes, with which a worker can measure a case. `inputs` are the tensors that a call gets,
    `outputs` those that it returns, both in the mode of the case. Raises SizeError."""
    needed = INPUT_SETS * total_bytes(inputs, case) + OUTPUT_SETS * total_bytes(outputs, case)
    expected = EXPECTED_SETS * sum(_expected_bytes(each, case) for each in outputs)
    # with F bytes free, kept values take at most KEPT_SHARE of F: the least F is that at which the rest is `needed`
    return needed + min(expected, max(EXPECTED_SETS * KEPT_BYTES, int(needed * KEPT_SHARE / (1 - KEPT_SHARE))))


def _expected_bytes(output: Layout, case: Case) -> int:
    """Bytes of the expected values of an output: a float64 value and a float64 scale per element if it is floating-point."""
    dtype = output.dtype_in(case)
    elements = output.bytes_in(case) // ITEMSIZE[dtype]
    return elements * (2 * ITEMSIZE["float64"] if dtype in FLOATING else ITEMSIZE[dtype])
