"""A tensor of an operator: its sizes, its dtype, and how it is filled or judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Protocol

from kbench.contract.sizes import Size, axes_of, evaluate
from kbench.results.case import FLOATING, ITEMSIZE, Case

if TYPE_CHECKING:
    import torch

SAME = "same"
"""The word of a choice that stands for the dtype of the case."""

Tolerance = float | Callable[[Case], float]
"""An error that a result may have, in units in the last place: a number, or a function of the case."""


class Draw(Protocol):
    """Draws random values on the measured device. Every call draws new values. They depend on the seed and the case only."""

    def normal(self, *shape: int, dtype: str | None = None) -> torch.Tensor:
        """Standard normal values, by default of the case's dtype."""

    def uniform(self, low: float, high: float, *shape: int, dtype: str | None = None) -> torch.Tensor:
        """Values from `low` up to `high`, by default of the case's dtype."""

    def integers(self, low: int, high: int, *shape: int, dtype: str = "int64") -> torch.Tensor:
        """Whole numbers from `low` up to but not including `high`."""


@dataclass(frozen=True)
class Normal:
    """Fill an input with normal values."""

    mean: float = 0.0
    std: float = 1.0


@dataclass(frozen=True)
class Uniform:
    """Fill an input with values that are equally likely from `low` up to `high`."""

    low: float = 0.0
    high: float = 1.0


@dataclass(frozen=True)
class Integers:
    """Fill an input with whole numbers from `low` up to but not including `below`. Both may be axes, and negative.
    `integers("V")` are labels of V classes."""

    below: Size
    low: Size = field(default=0, kw_only=True)


normal, uniform, integers = Normal, Uniform, Integers  # as an operator's declaration calls them

Fill = Normal | Uniform | Integers | Callable[["Case", Draw], "torch.Tensor"]
"""How an input is filled. A function gets the case and a `Draw`, and returns a tensor of the declared shape and dtype."""


@dataclass
class Layout:
    """The sizes and the dtype of a tensor. The parent process knows no more of it.

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

    def is_floating(self, case: Case) -> bool:
        """Whether it holds floating-point numbers in a case."""
        return self.dtype_in(case) in FLOATING


def total_bytes(layouts: Iterable[Layout], case: Case) -> int:
    """The bytes of several tensors in a case. Raises SizeError."""
    return sum(layout.bytes_in(case) for layout in layouts)


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

    def __init__(
        self,
        *sizes: int | str,
        dtype: str | None = None,
        fill: Fill | None = None,
        tolerance: Tolerance | None = None,
        ulps: Tolerance | None = None,
    ) -> None:
        super().__init__(tuple(str(size).strip() for size in sizes), dtype)
        self.fill, self.tolerance, self.ulps = fill, tolerance, ulps
        self.axes = frozenset[str]().union(*map(axes_of, self.sizes))  # all axes that occur in its sizes

    @property
    def layout(self) -> Layout:
        """Its sizes and its dtype alone."""
        return Layout(self.sizes, self.dtype)

    def dimension_of(self, axis: str | None) -> int | None:
        """The dimension whose size is this axis; None if there is none."""
        return self.sizes.index(axis) if axis in self.sizes else None

    def fill_for(self, dtype: str) -> Fill:
        """How kbench fills it when it has this dtype. Raises ValueError for a dtype that needs a fill and has none."""
        if self.fill is not None:
            return self.fill
        if dtype in FLOATING:
            return Normal()
        if dtype == "bool":
            return Integers(2)
        raise ValueError(f"an input of dtype {dtype} needs a fill; declare one, for example fill=kbench.integers(100)")
