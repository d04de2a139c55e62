"""The axis of changes: logarithmic in the ratio, so that twice as slow and twice as fast are equally far from no change."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import pandas as pd
from matplotlib.ticker import MaxNLocator

SMALL = math.log(1.6)
"""An axis up to here is in percent, a longer one in factors."""

ROOM = 1.15
"""The axis reaches so much farther than what it has to show."""

FEW = 10
"""Up to so many changes, all are shown where they are."""

NEAR = math.log(1.25)
"""A change up to here is never far out."""

EDGE = 0.08
"""No change is at least this share of the longer side away from the end of the shorter one."""

FACTORS = ((1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0,))
"""Steps of a decade, the finest first."""


@dataclass(frozen=True)
class Scale:
    """`low` and `high` are the ends of the axis and `margin` that of the comparison, all as logarithms of a ratio."""

    low: float
    high: float
    margin: float

    @classmethod
    def of(cls, rows: pd.DataFrame, margin: float) -> Scale:
        """An axis for all effects with their intervals, but for a few that would press the others flat: those are drawn at
        its edge, with their values."""
        edge, effects = math.log1p(margin), rows["effect"].dropna()
        usual = max(NEAR, 3 * float(effects.abs().quantile(0.9))) if len(effects) > FEW else math.inf
        ends = [
            ROOM * _reach(sign * effects, sign * rows[end].dropna(), usual, edge)
            for sign, end in ((-1, "low"), (1, "high"))
        ]
        below, above = (max(end, EDGE * max(ends)) for end in ends)
        return cls(-below, above, edge)

    @property
    def percent(self) -> bool:
        return max(-self.low, self.high) <= SMALL

    def ticks(self, most: int) -> tuple[list[float], list[str]]:
        """Where ticks stand, at most about `most` of them and not too close, and what they say."""
        if self.percent:
            ends = [100 * math.expm1(end) for end in (self.low, self.high)]
            ratios = [1 + step / 100 for step in MaxNLocator(most, steps=[1, 2, 5, 10]).tick_values(*ends)]
        else:
            ratios = self._factors((self.high - self.low) / most)
        shown = [ratio for ratio in ratios if ratio > 0 and self.low <= math.log(ratio) <= self.high]
        return [math.log(ratio) for ratio in shown], [self.said(ratio) for ratio in shown]

    def _factors(self, apart: float) -> list[float]:
        """Round factors whose logarithms are so far apart at least."""
        first, last = math.floor(self.low / math.log(10)), math.ceil(self.high / math.log(10))
        for steps in FACTORS:
            found = [step * 10.0**power for power in range(first, last + 1) for step in steps]
            if all(math.log(b / a) >= apart for a, b in itertools.pairwise(found)):
                return found
        every = math.ceil(apart / math.log(10))
        return [10.0**power for power in range(first, last + 1) if power % every == 0]

    def said(self, ratio: float) -> str:
        """`+4 %`, or `2x` on an axis of factors."""
        if not self.percent:
            return factor(ratio)
        change = 100 * (ratio - 1)
        return f"{change:+.3g} %".replace("-", "\N{MINUS SIGN}") if abs(change) > 1e-6 else "0"

    def value(self, effect: float) -> str:
        """A change as a number: `+4.6 %`, `46x`."""
        if not self.percent:
            return factor(math.exp(effect))
        change = f"{100 * math.expm1(effect):+.1f} %".replace("-", "\N{MINUS SIGN}")
        return "0.0 %" if change[1:] == "0.0 %" else change

    def within(self, effect: float) -> float:
        """Where an effect is drawn: at the edge if it lies beyond the axis."""
        return min(max(effect, 0.97 * self.low), 0.97 * self.high)

    def outside(self, effect: float) -> bool:
        return not self.low <= effect <= self.high


def factor(ratio: float) -> str:
    """`46x`, `1.5x`, `0.02x`"""
    return f"{ratio:.0f}x" if 999.5 <= ratio < 1e6 else f"{ratio:.3g}x".replace("e+", "e")


def _reach(effects: pd.Series[float], ends: pd.Series[float], usual: float, margin: float) -> float:
    """How far an axis goes on one side of no change, for effects up to `usual`; never less than twice the margin."""
    most = effects[effects <= usual].max()
    bars = min(ends[ends <= usual].max(), 2 * (most + margin))  # a wide interval is cut
    return max([2 * margin, *(size for size in (most, bars) if size > 0)])
