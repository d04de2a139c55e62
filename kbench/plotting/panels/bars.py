"""A panel of bars: one case with a bar per curve, the best on top. Curves without a value stand below with their status."""

from __future__ import annotations

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

VALUE_ROOM = 0.13
"""Room for the value beside the longest bar, as a share of the axis."""

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
        suspect = group["claimed"].median()
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


def draw(axes: Axes, panel: pd.DataFrame, look: Look, top: float) -> None:
    """Draw bars that begin at zero, each with its value beside it and its band as a whisker."""
    drawn = bars(panel, look)
    widest = max((min(bar.high, top) for bar in drawn if bar.value is not None), default=top)
    axes.set_xlim(0, max(1.03 * top, widest + VALUE_ROOM * top))
    draw_frame(axes, drawn, panel, look, top)
    for place, bar in enumerate(drawn):
        _draw_bar(axes, place, bar, look, top)


def draw_frame(
    axes: Axes, drawn: list[Bar], panel: pd.DataFrame, look: Look, top: float, size: float = NAME_SIZE
) -> None:
    """Draw the axis, its lines, and the names of the bars in a font of this size."""
    theme, names = look.theme, without_provider([bar.curve for bar in drawn])[0]
    axes.set_ylim(len(drawn) - 0.4, -0.6)
    axes.set_yticks(range(len(drawn)), [_name(bar, {**look.names, **names}, look) for bar in drawn], fontsize=size)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.ticklabel_format(style="plain", axis="x", useOffset=False)
    axes.set_xlabel(look.metric.label)
    peak = backdrop.peak(panel, look)
    if peak and peak <= top:
        axes.axvline(peak, color=theme.quiet, linewidth=1.2, linestyle=backdrop.LIMIT_LINE, zorder=1)
        label = f"theoretical {peak:.0f}"
        backdrop.annotate(axes, label, (peak, 1), (0, 3), ("data", "axes fraction"), color=theme.muted, ha="right")
    if look.metric.ratio:
        axes.axvline(1, color=theme.quiet, linewidth=1.4, zorder=1)


def _draw_bar(axes: Axes, place: int, bar: Bar, look: Look, top: float) -> None:
    theme, colour = look.theme, look.colour(bar.curve)
    plate = {"facecolor": theme.background, "linewidth": 0, "pad": 1}  # keeps lines out of the number
    if bar.value is None:
        ink = theme.readable(colour)
        axes.annotate(bar.note, (0, place), (5, 0), "data", "offset points", va="center", color=ink, bbox=plate)
        return
    hatch = "" if bar.hollow else HATCHES[look.files.index(bar.file) % len(HATCHES)]
    face = theme.background if bar.hollow else colour
    edge = theme.background if hatch else colour
    width = 1.5 if bar.hollow else 0
    axes.barh(place, bar.value, height=0.68, color=face, edgecolor=edge, linewidth=width, hatch=hatch)
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


def _name(bar: Bar, names: dict[str, str], look: Look) -> str:
    return names[bar.curve] if len(look.files) == 1 else f"{names[bar.curve]} · {bar.file}"
