"""A panel of bars: one case, a bar per curve, the best on top, and whoever has no value below with the reason's name."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes

from kbench.plotting.panels import backdrop
from kbench.plotting.panels.scale import limits
from kbench.plotting.selection.points import ABSENT, VALUE, pool
from kbench.plotting.style.look import Look
from kbench.plotting.style.words import alone, figures

HATCHES = ("", "//", "..", "xx", "\\\\", "oo")


@dataclass(frozen=True)
class Bar:
    """A curve of a file. `value` is None where it has no time: `note` then says why."""

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
            Bar(str(curve), str(file), note=f"suspect: {figures(suspect)}" if group["suspect"].any() else outcomes)
        )
    return measured + lost


def extent(panel: pd.DataFrame, look: Look) -> tuple[float, float]:
    """The range that the values of a panel want."""
    measured = [bar for bar in bars(panel, look) if bar.value is not None]
    _, top = limits([bar.value or 0.0 for bar in measured], [bar.high for bar in measured], log=False)
    peak = backdrop.peak(panel, look)
    return 0.0, peak if peak and top > peak / 2 else top


def draw(axes: Axes, panel: pd.DataFrame, look: Look, top: float) -> None:
    """A bar from zero with its value beside it and the band as a whisker; hollow as the points of lines are."""
    drawn = bars(panel, look)
    widest = max((min(bar.high, top) for bar in drawn if bar.value is not None), default=top)
    axes.set_xlim(0, max(1.03 * top, widest + 0.13 * top))  # room for the value beside the longest bar
    frame(axes, drawn, panel, look, top)
    for place, bar in enumerate(drawn):
        _draw_bar(axes, place, bar, look, top)


def frame(axes: Axes, drawn: list[Bar], panel: pd.DataFrame, look: Look, top: float, size: float = 12) -> None:
    """The names of bars in a font of this size, the axis and its lines."""
    theme, names = look.theme, alone([bar.curve for bar in drawn])[0]
    axes.set_ylim(len(drawn) - 0.4, -0.6)
    axes.set_yticks(range(len(drawn)), [_name(bar, {**look.names, **names}, look) for bar in drawn], fontsize=size)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.ticklabel_format(style="plain", axis="x", useOffset=False)
    axes.set_xlabel(look.metric.label)
    peak = backdrop.peak(panel, look)
    if peak and peak <= top:
        axes.axvline(peak, color=theme.quiet, linewidth=1.2, linestyle=backdrop.DASHES, zorder=1)
        label = f"theoretical {peak:.0f}"
        backdrop.write(axes, label, (peak, 1), (0, 3), ("data", "axes fraction"), color=theme.muted, ha="right")
    if look.metric.ratio:
        axes.axvline(1, color=theme.quiet, linewidth=1.4, zorder=1)


def _draw_bar(axes: Axes, place: int, bar: Bar, look: Look, top: float) -> None:
    theme, colour = look.theme, look.colour(bar.curve)
    plate = {"facecolor": theme.background, "linewidth": 0, "pad": 1}  # no line through a number
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
    if end - bar.low > 0.004 * top:  # with a halo, to be seen on a bar of any colour
        axes.hlines(place, bar.low, end, color=theme.background, linewidth=3.4, zorder=3)
        axes.hlines(place, bar.low, end, color=theme.ink, linewidth=1.3, zorder=3.1)
    axes.annotate(
        figures(bar.value),
        (end, place),
        (5, 0),
        "data",
        "offset points",
        va="center",
        fontsize=11,
        bbox=plate,
        zorder=2,
    )


def _name(bar: Bar, names: dict[str, str], look: Look) -> str:
    return names[bar.curve] if len(look.files) == 1 else f"{names[bar.curve]} · {bar.file}"
