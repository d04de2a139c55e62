"""Declares a tensor of an operator: its axes, its dtype, and how it is filled or judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kbench.contract.fills import Fill, Normal, integers
from kbench.contract.layout import Layout
from kbench.contract.sizes import axes_of
from kbench.results.case import FLOATING, Case

Tolerance = float | Callable[[Case], float]
"""An error that a result may have, in units in the last place: a number, or a function of the case."""


@dataclass(frozen=True, init=False)
class Tensor(Layout):
    """A tensor that an operator takes or returns.

    `Tensor("M", "2*N")` has two dimensions, of M and 2N elements. `Tensor()` holds one value.

    sizes      one size per dimension: an axis, a whole number, or arithmetic such as `N/2` (see contract/sizes.py)
    dtype      its dtype. Default: that of the case. The name of one of the operator's choices makes it sweepable: the words
               of this choice are dtypes, and `same` for that of the case
    fill       how an input is filled: `normal()`, `uniform()`, `integers("V")`, or a function `(case, draw) -> tensor`.
               Default: normal for floating-point dtypes, 0 and 1 for bool. Every other dtype needs a fill
    tolerance  the error allowed for this output, or for the gradient of this input. Default: the operator's
    ulps       the error that rounding this output, or the gradient of this input, may have, in units in the last place of
               its dtype: a number, or a function of the case. Default: the operator's `output_ulps`. Whole numbers must be
               equal, unless this says by how much they may differ

    Raises ValueError for a size that cannot be read.
    """

    fill: Fill | None = None
    tolerance: Tolerance | None = None
    ulps: Tolerance | None = None

    def __init__(
        self,
        *sizes: int | str,
        dtype: str | None = None,
        fill: Fill | None = None,
        tolerance: Tolerance | None = None,
        ulps: Tolerance | None = None,
    ) -> None:
        for size in sizes:
            axes_of(size)  # raises SizeError
        values = (tuple(str(size).strip() for size in sizes), dtype, fill, tolerance, ulps)
        for name, value in zip(("sizes", "dtype", "fill", "tolerance", "ulps"), values, strict=True):
            object.__setattr__(self, name, value)

    @property
    def layout(self) -> Layout:
        """Its sizes and its dtype alone."""
        return Layout(self.sizes, self.dtype)

    @property
    def axes(self) -> frozenset[str]:
        """All axes that occur in its sizes."""
        return frozenset[str]().union(*map(axes_of, self.sizes))

    def is_floating(self, case: Case) -> bool:
        """Whether it holds floating-point numbers in a case."""
        return self.dtype_in(case) in FLOATING

    def dimension_of(self, axis: str) -> int | None:
        """The dimension whose size is this axis, or None."""
        return self.sizes.index(axis) if axis in self.sizes else None

    def fill_for(self, dtype: str) -> Fill:
        """How kbench fills it when it has this dtype. Raises ValueError for a dtype that needs a fill and has none."""
        if self.fill is not None:
            return self.fill
        if dtype in FLOATING:
            return Normal()
        if dtype == "bool":
            return integers(2)
        raise ValueError(f"an input of dtype {dtype} needs a fill; declare one, for example fill=integers(100)")
