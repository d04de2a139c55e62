"""An axis of changes. It is logarithmic: twice as slow and twice as fast are equally far from no change."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd
from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

LONGEST_IN_PERCENT = math.log(1.6)
"""An axis that ends before this is labelled in percent, a longer one in factors."""

END_ROOM = 1.15
"""The axis is this much longer than its changes need."""

FEW_CHANGES, NEVER_FAR = 10, math.log(1.25)
"""Up to so many changes, and up to this size, no change is an outlier: the axis reaches all of them."""

SHORTEST_SIDE = 0.08
"""The shorter side of the axis has at least this share of the length of the longer side."""

FACTORS = ((1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0,))
"""Ticks in a decade, the finest first."""


@dataclass(frozen=True)
class ChangeAxis:
    """The ends of the axis, as logarithms of a ratio."""

    low: float
    high: float

    @classmethod
    def of(cls, rows: pd.DataFrame, margin: float) -> ChangeAxis:
        """An axis for all effects and their intervals except outliers, which would press the others flat.

        `margin` is a share; each side reaches at least twice as far. Outliers are drawn at the edge with their values.
        """
        edge, effects = math.log1p(margin), rows["effect"].dropna()
        usual = max(NEVER_FAR, 3 * float(effects.abs().quantile(0.9))) if len(effects) > FEW_CHANGES else math.inf
        sides = []
        for sign, end in ((-1, "low"), (1, "high")):
            sizes, ends = sign * effects, sign * rows[end].dropna()
            most = sizes[sizes <= usual].max()
            bars = min(ends[ends <= usual].max(), 2 * (most + edge))  # a wide interval is cut
            sides.append(END_ROOM * max([2 * edge, *(size for size in (most, bars) if size > 0)]))
        below, above = (max(side, SHORTEST_SIDE * max(sides)) for side in sides)
        return cls(-below, above)

    @property
    def in_percent(self) -> bool:
        return max(-self.low, self.high) <= LONGEST_IN_PERCENT

    def label(self, axis: Axis, most: int) -> None:
        """Give an axis of matplotlib about `most` ticks at most."""
        if self.in_percent:
            ends = [100 * math.expm1(end) for end in (self.low, self.high)]
            ratios: Iterable[float] = (
                1 + step / 100 for step in MaxNLocator(most, steps=[1, 2, 5, 10]).tick_values(*ends)
            )
        else:
            ratios = self._factors((self.high - self.low) / most)
        shown = [ratio for ratio in ratios if ratio > 0 and self.low <= math.log(ratio) <= self.high]
        axis.set_major_locator(FixedLocator([math.log(ratio) for ratio in shown]))
        axis.set_minor_locator(NullLocator())
        axis.set_ticklabels([self._tick_text(ratio) for ratio in shown])

    def _factors(self, apart: float) -> list[float]:
        """Round factors whose logarithms lie at least `apart` from each other."""
        decades = range(math.floor(self.low / math.log(10)), math.ceil(self.high / math.log(10)) + 1)
        for steps in FACTORS:
            factors = [step * 10.0**power for power in decades for step in steps]
            if all(math.log(b / a) >= apart for a, b in itertools.pairwise(factors)):
                return factors
        every = math.ceil(apart / math.log(10))
        return [10.0**power for power in decades if power % every == 0]

    def _tick_text(self, ratio: float) -> str:
        """A ratio at a tick: `+4 %`, or `2x` on an axis of factors."""
        if not self.in_percent:
            return _factor_text(ratio)
        change = 100 * (ratio - 1)
        return f"{change:+.3g} %".replace("-", "\N{MINUS SIGN}") if abs(change) > 1e-6 else "0"

    def text(self, effect: float) -> str:
        """A change beside its mark: `+4.6 %`, or `46x` on an axis of factors."""
        if not self.in_percent:
            return _factor_text(math.exp(effect))
        change = f"{100 * math.expm1(effect):+.1f} %".replace("-", "\N{MINUS SIGN}")
        return "0.0 %" if change[1:] == "0.0 %" else change

    def within(self, effect: float) -> float:
        """The position of an effect, at the edge where it lies beyond the axis."""
        return min(max(effect, 0.97 * self.low), 0.97 * self.high)

    def outside(self, effect: float) -> bool:
        """Whether an effect lies beyond the axis."""
        return not self.low <= effect <= self.high

    def cut_ends(self, low: float, high: float) -> list[tuple[float, int]]:
        """The edges beyond which an interval goes on, each with the direction back into the axis."""
        ends = ((self.low, 1, low < self.low), (self.high, -1, high > self.high))
        return [(edge, back) for edge, back, is_cut in ends if is_cut]


def _factor_text(ratio: float) -> str:
    """`46x`, `1.5x`, `0.02x`"""
    return f"{ratio:.0f}x" if 999.5 <= ratio < 1e6 else f"{ratio:.3g}x".replace("e+", "e")
