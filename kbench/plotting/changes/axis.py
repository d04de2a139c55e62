"""The axis of changes. It is logarithmic: twice as slow and twice as fast are equally far from no change."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import pandas as pd
from matplotlib.ticker import MaxNLocator

LONGEST_IN_PERCENT = math.log(1.6)
"""An axis that ends before this is labelled in percent, a longer one in factors."""

END_ROOM = 1.15
"""The axis is this much longer than its changes need."""

FEW_CHANGES = 10
"""Up to this many changes have no outliers: the axis reaches all of them."""

NEVER_FAR = math.log(1.25)
"""A change up to this size is no outlier."""

SHORTEST_SIDE = 0.08
"""The shorter side of the axis has at least this share of the length of the longer side."""

FACTORS = ((1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0,))
"""Ticks in a decade, the finest first."""


@dataclass(frozen=True)
class ChangeAxis:
    """`low` and `high` are the ends of the axis. `margin` is that of the comparison. All are logarithms of a ratio."""

    low: float
    high: float
    margin: float

    @classmethod
    def of(cls, rows: pd.DataFrame, margin: float) -> ChangeAxis:
        """An axis for all effects and their intervals except outliers, which would press the others flat.

        `margin` is a share. Outliers are drawn at the edge with their values.
        """
        edge, effects = math.log1p(margin), rows["effect"].dropna()
        usual = max(NEVER_FAR, 3 * float(effects.abs().quantile(0.9))) if len(effects) > FEW_CHANGES else math.inf
        ends = [
            END_ROOM * _reach(sign * effects, sign * rows[end].dropna(), usual, edge)
            for sign, end in ((-1, "low"), (1, "high"))
        ]
        below, above = (max(end, SHORTEST_SIDE * max(ends)) for end in ends)
        return cls(-below, above, edge)

    @property
    def in_percent(self) -> bool:
        return max(-self.low, self.high) <= LONGEST_IN_PERCENT

    def ticks(self, most: int) -> tuple[list[float], list[str]]:
        """Positions and texts of about `most` ticks at most."""
        if self.in_percent:
            ends = [100 * math.expm1(end) for end in (self.low, self.high)]
            ratios = [1 + step / 100 for step in MaxNLocator(most, steps=[1, 2, 5, 10]).tick_values(*ends)]
        else:
            ratios = self._factors((self.high - self.low) / most)
        shown = [ratio for ratio in ratios if ratio > 0 and self.low <= math.log(ratio) <= self.high]
        return [math.log(ratio) for ratio in shown], [self.tick_text(ratio) for ratio in shown]

    def _factors(self, apart: float) -> list[float]:
        """Round factors whose logarithms lie at least `apart` from each other."""
        first, last = math.floor(self.low / math.log(10)), math.ceil(self.high / math.log(10))
        for steps in FACTORS:
            found = [step * 10.0**power for power in range(first, last + 1) for step in steps]
            if all(math.log(b / a) >= apart for a, b in itertools.pairwise(found)):
                return found
        every = math.ceil(apart / math.log(10))
        return [10.0**power for power in range(first, last + 1) if power % every == 0]

    def tick_text(self, ratio: float) -> str:
        """A ratio at a tick: `+4 %`, or `2x` on an axis of factors."""
        if not self.in_percent:
            return _factor_text(ratio)
        change = 100 * (ratio - 1)
        return f"{change:+.3g} %".replace("-", "\N{MINUS SIGN}") if abs(change) > 1e-6 else "0"

    def change_text(self, effect: float) -> str:
        """A change beside its mark: `+4.6 %`, or `46x` on an axis of factors."""
        if not self.in_percent:
            return _factor_text(math.exp(effect))
        change = f"{100 * math.expm1(effect):+.1f} %".replace("-", "\N{MINUS SIGN}")
        return "0.0 %" if change[1:] == "0.0 %" else change

    def within(self, effect: float) -> float:
        """The position of an effect, at the edge where it lies beyond the axis."""
        return min(max(effect, 0.97 * self.low), 0.97 * self.high)

    def cut_ends(self, low: float, high: float) -> list[tuple[float, int]]:
        """The edges beyond which an interval goes on, each with the direction back into the axis."""
        ends = ((self.low, 1, low < self.low), (self.high, -1, high > self.high))
        return [(edge, back) for edge, back, cut in ends if cut]

    def outside(self, effect: float) -> bool:
        """Whether an effect lies beyond the axis."""
        return not self.low <= effect <= self.high


def _factor_text(ratio: float) -> str:
    """`46x`, `1.5x`, `0.02x`"""
    return f"{ratio:.0f}x" if 999.5 <= ratio < 1e6 else f"{ratio:.3g}x".replace("e+", "e")


def _reach(effects: pd.Series[float], ends: pd.Series[float], usual: float, margin: float) -> float:
    """The length of one side of an axis, for effects up to `usual`. It is at least twice the margin."""
    most = effects[effects <= usual].max()
    bars = min(ends[ends <= usual].max(), 2 * (most + margin))  # a wide interval is cut
    return max([2 * margin, *(size for size in (most, bars) if size > 0)])
