"""The layout of a tensor: its sizes and its dtype, without the values. The parent process knows no more of a tensor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from kbench.contract.sizes import evaluate
from kbench.results.case import ITEMSIZE, Case

SAME = "same"
"""The word of a choice that stands for the dtype of the case."""


@dataclass(frozen=True)
class Layout:
    """A tensor of an operator.

    sizes  one expression in axes per dimension (see contract/sizes.py)
    dtype  its dtype, or the choice that names it; None for the dtype of the case
    """

    sizes: tuple[str, ...]
    dtype: str | None = None

    def dtype_in(self, case: Case) -> str:
        """Its dtype in a case. Raises KeyError for a case without the choice that names it."""
        if self.dtype is None:
            return case.dtype
        named = self.dtype if self.dtype in ITEMSIZE else case.axes[self.dtype]
        return case.dtype if named == SAME else str(named)

    def shape_in(self, case: Case) -> tuple[int, ...]:
        """Its shape in a case. Raises SizeError."""
        return tuple(evaluate(size, case.axes) for size in self.sizes)

    def bytes_in(self, case: Case) -> int:
        """Its bytes in a case. Raises SizeError."""
        return prod(self.shape_in(case)) * ITEMSIZE[self.dtype_in(case)]


def total_bytes(layouts: Iterable[Layout], case: Case) -> int:
    """The bytes of several tensors in a case. Raises SizeError."""
    return sum(layout.bytes_in(case) for layout in layouts)
