"""The memory of a case: what a worker keeps, in which slices it computes and compares, and how much it takes at most.

A worker holds three sets of inputs and a copy of one set, the outputs of two calls with a copy of one, the buffers of the copy
control, and the expected outputs for each of the three sets, if they fit: float64 values, and the scales of their errors. For a
while it also needs temporaries: those of the reference, of the comparisons and of the providers. Timing adds parts of the
outputs of a few calls of each provider and, if the timer rotates over buffers, further sets of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from kbench.contract.layout import Layout, total_bytes
from kbench.results.case import BACKWARD, FLOATING, FORWARD, FULL, ITEMSIZE, Case

INPUT_SETS, OUTPUT_SETS, EXPECTED_SETS = 4, 3, 3

KEPT_BYTES = 2**26
"""Expected outputs of one set of inputs are kept if they take at most this many bytes, however little memory is free."""

KEPT_MOST = 2**33
"""Expected outputs of one set of inputs are not kept if they take more bytes, however much memory is free."""

KEPT_SHARE = 0.35
"""Share of the free memory that the expected outputs of a case may take. kbench computes them once, and again for each check
if they do not fit."""

CHUNK_ELEMENTS, CHUNK_LEAST, CHUNK_SHARE = 2**25, 2**20, 16
"""Expected outputs of an operator with independent rows are computed in slices, and all outputs are compared in slices. A slice
has a sixteenth of the elements of the largest tensor, but at least 2^20 and at most 2^25. So the float64 temporaries of a large
case are small beside its tensors. Smaller slices would cost a device launches."""

# Bytes of temporaries per element. They were measured on a host, as peaks of the memory of a process. Allocators leave gaps
# between tensors that are freed in another order than they were made, so the counts of the tensors themselves are lower.
SLICED_INPUT = {FORWARD: 28, BACKWARD: 36, FULL: 36}
SLICED_OUTPUT = {FORWARD: 58, BACKWARD: 84, FULL: 84}
INTERMEDIATE = 24
"""Of the largest tensor of a slice: intermediate results of the reference."""
LARGE_INPUT, LARGE_OUTPUT, LARGE_ELEMENTS = 18, 48, 2**22
"""Of tensors with at least that many elements in a slice, which leave no gaps: their memory goes back to the system."""
COMPARISON_BYTES = 160
PROVIDER = {FORWARD: 4, BACKWARD: 16, FULL: 10}
"""Of the largest tensor: a float32 tensor, and in the modes with gradients what autograd keeps of the forward pass."""
PROVIDER_SHORT = 6
"""The same, in addition, for dtypes of less than 4 bytes: providers convert them to float32."""


SALTED_ROWS, OTHER_ROWS = 8, 16
"""The most rows that a salt changes, and the rows that kbench keeps of a timed call beside those."""

MOST_ROWS = 4 * SALTED_ROWS + OTHER_ROWS
"""The most rows of an output that are kept of a timed call: those of two salts and of two before them, and others."""

ROWS_KEPT, WHOLE_KEPT = 4, 2
"""How many timed calls of a provider are judged: if some rows of the reference are enough for that, and if it takes the
whole reference."""

ELEMENTS_KEPT = 2**16
"""Elements that are kept of an output without the axis `rows`."""

LARGEST_KEPT = 2**26
"""Outputs that the operator judges itself are kept whole, unless they take more bytes than this. If the rows to keep of an
output take more, some elements are kept instead."""

ROTATED_CACHE_FILLS = 3
"""How many times rotated buffers fill the last-level cache."""

MIN_CALLS, MAX_CALLS = 20, 2048
"""The fewest calls in a CUDA graph, which share the cost of launching it, and the most. Tiny cases would need more to fill the
cache; their rows are flagged l2-resident."""

AFFORDABLE_BYTES = 2**30
"""If the buffers of MIN_CALLS calls take at most this many bytes, every call has buffers of its own. A provider could otherwise
compute one of the calls on the same buffers, and return copies for the others."""

ASSUMED_CACHE_BYTES = 256 * 1024**2
"""The size of the cache, if the device does not report it."""


def fill_bytes(cache_bytes: int | None) -> int:
    """The bytes that rotated buffers must have together, so that no call finds its own in the last-level cache."""
    return ROTATED_CACHE_FILLS * (cache_bytes or ASSUMED_CACHE_BYTES)


def rotated_sets(call_bytes: int, cache_bytes: int | None) -> int:
    """The sets of buffers over which a timer rotates. A call touches `call_bytes` bytes."""
    least = MIN_CALLS if MIN_CALLS * call_bytes <= AFFORDABLE_BYTES else 2
    return min(max(least, ceil(fill_bytes(cache_bytes) / max(call_bytes, 1)) + 1), MAX_CALLS)


def slice_elements(largest: int, limit: int = CHUNK_ELEMENTS) -> int:
    """The most elements of a slice of a tensor with `largest` elements."""
    return min(limit, max(CHUNK_LEAST, -(-largest // CHUNK_SHARE)))


def keep_bytes(free_bytes: int | None) -> int:
    """How many bytes of expected outputs a worker may keep for one set of inputs. `free_bytes` is None if not known."""
    return max(KEPT_BYTES, min(KEPT_MOST, int((free_bytes or 0) * KEPT_SHARE) // EXPECTED_SETS))


@dataclass(frozen=True)
class CaseMemory:
    """The tensors of a case. `received` are those that a call gets, `returned` those that it returns, both in the mode of the
    case. `rows` is the axis along which expected outputs are computed in slices; None if they are computed in one piece.
    `judged` says whether the operator judges its outputs itself."""

    case: Case
    received: Sequence[Layout]
    returned: Sequence[Layout]
    rows: str | None
    judged: bool = False

    def timing_bytes(self, providers: int, sets: int) -> int:
        """The memory, in bytes, that it takes to time so many providers over so many sets of buffers, beside what a check
        needs: the inputs, the buffers of the copy control, and the outputs of each provider and of the repeated baseline.
        Raises SizeError."""
        received, returned = total_bytes(self.received, self.case), total_bytes(self.returned, self.case)
        rotated = (sets - 1) * (2 * received + returned + (providers + 1) * returned)
        return rotated + providers * self._kept_bytes(returned)

    def _kept_bytes(self, whole: int) -> int:
        """What is kept of the timed calls of one provider. `whole`: the bytes of all outputs of a call."""
        if self.judged:
            return WHOLE_KEPT * whole if whole <= LARGEST_KEPT else 0
        rows = [self._kept_rows_bytes(each) for each in self.returned]
        calls = WHOLE_KEPT if None in rows else ROWS_KEPT
        elements = [
            min(self._elements(each), ELEMENTS_KEPT) * ITEMSIZE[each.dtype_in(self.case)] for each in self.returned
        ]
        return calls * sum(few if found is None else found for found, few in zip(rows, elements, strict=True))

    def _kept_rows_bytes(self, output: Layout) -> int | None:
        """The bytes of the rows that are kept of an output; None if elements are kept instead."""
        if self.rows is None or self.rows not in output.sizes:
            return None
        count = output.shape_in(self.case)[output.sizes.index(self.rows)]
        kept = min(count, MOST_ROWS) * (output.bytes_in(self.case) // max(count, 1))
        return kept if kept <= LARGEST_KEPT else None

    def needed_bytes(self) -> int:
        """The memory, in bytes, that a worker takes to check the case if enough is free. Raises SizeError."""
        case = self.case
        call = total_bytes([*self.received, *self.returned], case)
        held = INPUT_SETS * total_bytes(self.received, case) + OUTPUT_SETS * total_bytes(self.returned, case) + call
        expected = sum(self._expected_bytes(each) for each in self.returned)
        if expected <= KEPT_MOST:
            expected *= EXPECTED_SETS
        elif self._share < 1:
            expected = 0  # computed again for each check, in slices
        return held + expected + max(self._reference_bytes(), self._check_bytes())

    def _reference_bytes(self) -> int:
        """Temporaries of the float64 reference, and of the estimate of the scale of errors."""
        mode, needed, largest = self.case.mode, 0.0, 0.0
        for tensors, small, large in (
            (self.received, SLICED_INPUT[mode], LARGE_INPUT),
            (self.returned, SLICED_OUTPUT[mode], LARGE_OUTPUT),
        ):
            for each in tensors:
                rows = self._has_rows(each)
                elements = self._elements(each) * (self._share if rows else 1.0)
                if rows or self.rows is None:
                    largest = max(largest, elements)
                if each.dtype_in(self.case) in FLOATING:
                    needed += (large if elements >= LARGE_ELEMENTS else small) * elements
        return int(needed + INTERMEDIATE * largest)

    def _check_bytes(self) -> int:
        """Temporaries of a provider, and of the comparison of its outputs."""
        compared = COMPARISON_BYTES * slice_elements(self._largest(self.returned))
        short = PROVIDER_SHORT if self.case.itemsize < 4 else 0
        provider = (PROVIDER[self.case.mode] + short) * self._largest([*self.received, *self.returned])
        return max(compared, provider) if self.case.mode == FORWARD else compared + provider

    @property
    def _share(self) -> float:
        """The part of the rows that a slice has."""
        largest = self._largest(each for each in (*self.received, *self.returned) if self._has_rows(each))
        return min(1.0, slice_elements(largest) / largest) if largest else 1.0

    def _has_rows(self, tensor: Layout) -> bool:
        return self.rows is not None and self.rows in tensor.sizes

    def _largest(self, tensors: Iterable[Layout]) -> int:
        return max((self._elements(each) for each in tensors), default=0)

    def _elements(self, tensor: Layout) -> int:
        return tensor.bytes_in(self.case) // ITEMSIZE[tensor.dtype_in(self.case)]

    def _expected_bytes(self, output: Layout) -> int:
        """Bytes of the expected values of an output: float64, and a scale for each element if it is floating-point."""
        return self._elements(output) * ITEMSIZE["float64"] * (2 if output.dtype_in(self.case) in FLOATING else 1)
