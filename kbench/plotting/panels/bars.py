"""A panel of bars: one case with a bar per curve, the best on top. Curves without a value stand below with their status."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes

from kbench.plotting.panels import backdrop
from kbench.plotting.panels.look import Look
from kbench.plotting.panels.scale import limits
from kbench.plotting.selection.points import ABSENT, VALUE, pool
from kbench.plotting.style.formatting import four_digits, without_provider

HATCHES = ("", "//", "..", "xx", "\\\\", "oo")
"""One for each file."""

NAME_SIZE, VALUE_SIZE = 12, 11
"""Font sizes, in points."""

BAR_INCHES, NAME_LINE_INCHES = 0.31, 0.17
"""Heights of the row of a bar without its name, and of a line of a name above the bar."""

THICKNESS = 0.68
"""Of a bar, as a share of BAR_INCHES."""

VALUE_ROOM = 0.13
"""Room for the value beside the longest bar, as a share of the axis."""

SHORT_TICKS, FEW_TICKS = (0.05, 1e4), 5
"""Axes that end within this range have short numbers at their ticks. On other axes there is room for few."""

SHORTEST_WHISKER = 0.004
"""Bands shorter than this share of the axis are not drawn."""


@dataclass(frozen=True)
class Bar:
    """The bar of a curve of a file. `value` is None where it has no time; `note` then says why."""

    curve: str
    file: str
    value: float | None = None
    low: float = 0.0
    high: float = 0.0
    hollow: bool = False
    note: str = ""


@dataclass(frozen=True)
class BarRows:
    """How the rows of bars are divided.

    name_lines  lines for the name above each bar, 0 where the names stand beside the bars
    characters  the most in such a line
    """

    name_lines: int = 0
    characters: int = 0

    @classmethod
    def for_names(cls, names: Sequence[str], beside: int, above: int) -> BarRows:
        """Rows with names beside the bars if no name has more than `beside` characters, else with lines of `above`."""
        if max(map(len, names), default=0) <= beside:
            return cls()
        return cls(max(len(textwrap.wrap(name, above)) for name in names), above)

    @property
    def inches(self) -> float:
        """The height of a row."""
        return BAR_INCHES + NAME_LINE_INCHES * self.name_lines

    @property
    def thickness(self) -> float:
        """The thickness of a bar, as a share of its row."""
        return THICKNESS * BAR_INCHES / self.inches

    @property
    def down(self) -> float:
        """How far the middle of a bar is below the middle of its row, as a share of the row."""
        return NAME_LINE_INCHES * self.name_lines / self.inches / 2


def bars(panel: pd.DataFrame, look: Look) -> list[Bar]:
    """The bars of a panel from top to bottom."""
    shown = panel[panel["kind"] != ABSENT]
    values = pool(shown[(shown["kind"] == VALUE) & ~shown["suspect"]], ["file", "curve"])
    measured = [
        Bar(curve, file, value, low, high, bool(hollow))
        for (file, curve), value, low, high, hollow in values[["value", "low", "high", "hollow"]].itertuples()
    ]
    sign = 1 if look.metric.lower_is_better else -1
    measured.sort(key=lambda bar: (sign * (bar.value or 0.0), bar.curve, look.files.index(bar.file)))
    lost = []
    for (file, curve), group in shown.groupby(["file", "curve"]):
        if (file, curve) in values.index:
            continue
        suspect = group["claimed"].dropna().median()
        outcomes = ", ".join(sorted(set(group["status"])))
        lost.append(
            Bar(str(curve), str(file), note=f"suspect: {four_digits(suspect)}" if group["suspect"].any() else outcomes)
        )
    return measured + lost


def extent(panel: pd.DataFrame, look: Look) -> tuple[float, float]:
    """The range of the axis that suits the values of a panel."""
    measured = [bar for bar in bars(panel, look) if bar.value is not None]
    _, top = limits([bar.value or 0.0 for bar in measured], [bar.high for bar in measured], log=False)
    peak = backdrop.peak(panel, look)
    return 0.0, peak if peak and top > peak / 2 else top


def bar_names(panel: pd.DataFrame, look: Look) -> list[str]:
    """What to print for each bar of a panel, from top to bottom."""
    drawn = bars(panel, look)
    known = {**look.names, **without_provider([bar.curve for bar in drawn])[0]}
    return [known[bar.curve] if len(look.files) == 1 else f"{known[bar.curve]} · {bar.file}" for bar in drawn]


def draw(axes: Axes, panel: pd.DataFrame, look: Look, top: float, rows: BarRows) -> None:
    """Draw bars that begin at zero, each with its value beside it and its band as a whisker."""
    drawn = bars(panel, look)
    widest = max((min(bar.high, top) for bar in drawn if bar.value is not None), default=top)
    axes.set_xlim(0, max(1.03 * top, widest + VALUE_ROOM * top))
    draw_frame(axes, panel, look, top)
    if rows.name_lines:
        _name_above(axes, bar_names(panel, look), look, rows)
    else:
        name_beside(axes, bar_names(panel, look), NAME_SIZE)
    for place, bar in enumerate(drawn):
        _draw_bar(axes, place + rows.down, bar, look, top, rows.thickness)


def name_beside(axes: Axes, texts: Sequence[str], size: float) -> None:
    """Write the names left of the bars, in a font of this size."""
    axes.set_yticks(range(len(texts)), texts, fontsize=size)


def _name_above(axes: Axes, texts: Sequence[str], look: Look, rows: BarRows) -> None:
    """Write the names into the panel, each above its bar."""
    plate = {"facecolor": look.theme.background, "linewidth": 0, "pad": 1}  # keeps lines out of the name
    axes.set_yticks([])
    for place, text in enumerate(texts):
        edge = place + rows.down - rows.thickness / 2
        axes.annotate(
            "\n".join(textwrap.wrap(text, rows.characters)), (0, edge), (3, 2), "data", "offset points", va="bottom",
            fontsize=VALUE_SIZE, bbox=plate, zorder=2,
        )  # fmt: skip


def draw_frame(axes: Axes, panel: pd.DataFrame, look: Look, top: float) -> None:
    """Draw the axis of a panel and its lines."""
    theme, count = look.theme, len(bars(panel, look))
    axes.set_ylim(count - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.ticklabel_format(style="plain", axis="x", useOffset=False)
    if not SHORT_TICKS[0] <= top < SHORT_TICKS[1]:
        axes.locator_params(axis="x", nbins=FEW_TICKS)
    axes.set_xlabel(look.metric.label)
    peak = backdrop.peak(panel, look)
    if peak and peak <= top:
        axes.axvline(peak, color=theme.quiet, linewidth=1.2, linestyle=backdrop.LIMIT_LINE, zorder=1)
        label = f"theoretical {peak:.0f}"
        backdrop.annotate(axes, label, (peak, 1), (0, 3), ("data", "axes fraction"), color=theme.muted, ha="right")
    if look.metric.ratio:
        axes.axvline(1, color=theme.quiet, linewidth=1.4, zorder=1)


def _draw_bar(axes: Axes, place: float, bar: Bar, look: Look, top: float, thickness: float) -> None:
    """Draw a bar whose middle is at the height `place`."""
    theme, colour = look.theme, look.styles[bar.curve].colour
    plate = {"facecolor": theme.background, "linewidth": 0, "pad": 1}  # keeps lines out of the number
    if bar.value is None:
        ink = theme.readable(colour)
        axes.annotate(bar.note, (0, place), (5, 0), "data", "offset points", va="center", color=ink, bbox=plate)
        return
    hatch = "" if bar.hollow else HATCHES[look.files.index(bar.file) % len(HATCHES)]
    face = theme.background if bar.hollow else colour
    edge = theme.background if hatch else colour
    width = 1.5 if bar.hollow else 0
    axes.barh(place, bar.value, height=thickness, color=face, edgecolor=edge, linewidth=width, hatch=hatch)
    end = min(bar.high, top)
    if end - bar.low > SHORTEST_WHISKER * top:  # the halo makes it visible on a bar of any colour
        axes.hlines(place, bar.low, end, color=theme.background, linewidth=3.4, zorder=3)
        axes.hlines(place, bar.low, end, color=theme.ink, linewidth=1.3, zorder=3.1)
    axes.annotate(
        four_digits(bar.value),
        (end, place),
        (5, 0),
        "data",
        "offset points",
        va="center",
        fontsize=VALUE_SIZE,
        bbox=plate,
        zorder=2,
    )
