"""What all panels of changes have in common: the axis, the band of the margin, and marks with their intervals."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from kbench.plotting.changes.scale import Scale
from kbench.plotting.changes.verdicts import Looks
from kbench.plotting.style.theme import Theme, mix


@dataclass(frozen=True)
class Panels:
    """`quantity` is what changes (time, speed), and `looks` how the verdicts look."""

    scale: Scale
    looks: Looks
    quantity: str

    @property
    def theme(self) -> Theme:
        return self.looks.theme

    @property
    def label(self) -> str:
        """Of the axis, along it."""
        ends = ("slower", "faster") if self.looks.more_is_better else ("faster", "slower")
        return f"{ends[0]}  \N{LEFTWARDS ARROW}  {self.quantity}  \N{RIGHTWARDS ARROW}  {ends[1]}"

    @property
    def band(self) -> str:
        """The colour of the margin."""
        return mix(self.theme.background, self.theme.quiet, 0.2)

    def scaled(self, size: float) -> Panels:
        """The same with marks of another size."""
        return replace(self, looks=replace(self.looks, scale=size))

    def upright(self, axes: Axes, ticks: int, strip: float = 0.0) -> None:
        """Changes along y, above a strip that takes this share of the height."""
        scale = self.scale
        axes.set_ylim(scale.low - (scale.high - scale.low) * strip / (1 - strip), scale.high)
        places, texts = scale.ticks(ticks)
        axes.yaxis.set_major_locator(FixedLocator(places))
        axes.set_yticklabels(texts)
        axes.yaxis.set_minor_locator(NullLocator())
        axes.axhspan(-scale.margin, scale.margin, color=self.band, linewidth=0, zorder=0)
        axes.axhline(0, color=self.theme.quiet, linewidth=1.2, zorder=1)
        if strip:
            axes.axhline(scale.low, color=self.theme.quiet, linewidth=0.8, zorder=1)

    def points(self, axes: Axes, places: pd.Series[float], rows: pd.DataFrame) -> None:
        """Marks with intervals over their places along x. A change beyond the axis is at its edge, with its value."""
        shown = rows["effect"].map(self.scale.within)
        width = 1.3 * self.looks.scale
        for word, group in rows.groupby("word"):
            ink, at = self.looks.colour(str(word)), places[group.index]
            axes.vlines(at, group["low"], group["high"], color=ink, linewidth=width, alpha=0.75, zorder=2)
            axes.plot(at, shown[group.index], zorder=3, **self.looks.mark(str(word)))
        for place, effect in zip(places, rows["effect"], strict=True):
            if self.scale.outside(effect):
                axes.annotate(
                    self.scale.value(effect), (place, self.scale.within(effect)), (6, 0), "data", "offset points",
                    va="center", fontsize=9, color=self.theme.muted,
                )  # fmt: skip
