"""How kbench fills an input with values: normal, uniform, integers, or a function of the operator's author."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kbench.contract.sizes import Size

if TYPE_CHECKING:
    import torch

    from kbench.results.case import Case


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
    """Normal values with this mean and standard deviation."""

    mean: float = 0.0
    std: float = 1.0


@dataclass(frozen=True)
class Uniform:
    """Values that are equally likely from `low` up to `high`."""

    low: float
    high: float


@dataclass(frozen=True)
class Integers:
    """Whole numbers that are equally likely from `low` up to but not including `high`. Both may be axes, and negative."""

    low: Size
    high: Size


Fill = Normal | Uniform | Integers | Callable[["Case", Draw], "torch.Tensor"]
"""How an input is filled. A function gets the case and a `Draw`, and returns a tensor of the declared shape and dtype."""


def normal(mean: float = 0.0, std: float = 1.0) -> Normal:
    """Fill an input with normal values."""
    return Normal(mean, std)


def uniform(low: float = 0.0, high: float = 1.0) -> Uniform:
    """Fill an input with values that are equally likely from `low` up to `high`."""
    return Uniform(low, high)


def integers(below: Size, *, low: Size = 0) -> Integers:
    """Fill an input with whole numbers from `low` up to but not including `below`. `integers("V")` are labels of V classes."""
    return Integers(low, below)
