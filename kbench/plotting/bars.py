"""A panel of bars: one case with a bar per curve, the best on top. Curves without a value stand below with their status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from matplotlib.axes import Axes

from kbench.plotting.lines import files_of
from kbench.plotting.names import four_digits, without_provider
from kbench.plotting.pages import Look
from kbench.plotting.points import Series
from kbench.plotting.scales import limits
from kbench.plotting.sheet import PAGE_WIDTHS, POINTS_PER_INCH, text_width, wrap
from kbench.plotting.style import LIMIT_LINE, SMALL_PRINT

HATCHES = ("", "//", "..", "xx", "\\\\", "oo")
"""One for each file."""

MANY_BARS = 12
"""A case with more bars has thin ones, and small names."""

THICKNESS = 0.68
"""Of a bar, as a share of the height of its row."""

BESIDE = 0.45
"""The names of bars take at most this share of the width of a panel."""

NAME, SMALL_NAME = 12.0, 9.5
"""Font sizes of names, in points."""

AROUND_INCHES, LEAST_INCHES = 0.9, 1.6
"""The title and axis of a panel, and the least height of one."""

PEAK_PAD = 17.0
"""Distance in points between a panel and its title where the name of the theoretical bandwidth stands between them."""

VALUE_ROOM = 0.14
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
    name: str
    value: float | None = None
    low: float = 0.0
    high: float = 0.0
    hollow: bool = False
    note: str = ""


def bars_of(panel: Sequence[Series], look: Look) -> list[Bar]:
    """The bars of a panel from top to bottom."""
    names = {**look.names, **without_provider([series.curve for series in panel])[0]}
    bars = []
    for series in panel:
        name = names[series.curve] if len(look.files) == 1 else f"{names[series.curve]} · {series.file}"
        if series.values:
            values = [point.value for point in series.points if point.value is not None]
            lows, highs, hollow = zip(*(value[1:] for value in series.values.values()), strict=True)
            bars.append(Bar(series.curve, series.file, name, median(values), min(lows), max(highs), any(hollow)))
        else:
            claims = list(series.claims.values())
            outcomes = ", ".join(sorted({point.row.status.value for point in series.points}))
            note = f"suspect: {four_digits(median(claims))}" if claims else outcomes
            bars.append(Bar(series.curve, series.file, name, note=note))
    sign = look.metric.sign
    return sorted(
        bars, key=lambda bar: (bar.value is None, -sign * (bar.value or 0.0), bar.curve, look.files.index(bar.file))
    )


@dataclass(frozen=True)
class BarRows:
    """How the rows of all bars of a page look.

    columns  of panels on the page
    inches   the height of a panel with its title and axis
    size     the font size of names, in points
    width    the most of the width of a line of a name, in points
    """

    columns: int
    inches: float
    size: float
    width: float

    @classmethod
    def of(cls, panels: Sequence[Sequence[Bar]], columns: int) -> BarRows:
        """The rows for these panels. Many bars with long names have a single column of panels. Names that are too long for a
        line are smaller and have several."""
        names = [bar.name for panel in panels for bar in panel]
        most = max(map(len, panels))
        many = most > MANY_BARS
        longest = max(text_width(name, SMALL_NAME if many else NAME) for name in names)
        width = BESIDE * POINTS_PER_INCH * PAGE_WIDTHS[columns] / columns
        if many and longest > width:
            columns, width = 1, BESIDE * POINTS_PER_INCH * PAGE_WIDTHS[1]
        size = SMALL_NAME if many or longest > width else NAME
        lines = max(1 + _broken(name, width, size).count("\n") for name in names)
        row = max(0.2 if many else 0.31, 0.17 * lines)
        return cls(columns, max(LEAST_INCHES, AROUND_INCHES + row * most), size, width)


def _broken(name: str, width: float, size: float) -> str:
    """A name in lines that fit into a width. They end after commas where they can."""
    return name if text_width(name, size) <= width else wrap(name.replace(",", ", "), width, size, indent="")


def top_of(panel: Sequence[Series], bars: Sequence[Bar], look: Look) -> float:
    """The end of the axis that suits the values of a panel."""
    measured = [bar for bar in bars if bar.value is not None]
    _, top = limits([bar.value or 0.0 for bar in measured], [bar.high for bar in measured], log=False)
    peak = look.peak(files_of(panel))
    return peak if peak and top > peak / 2 else top


def draw(
    axes: Axes, panel: Sequence[Series], bars: Sequence[Bar], look: Look, top: float, rows: BarRows
) -> float | None:
    """Draw bars that begin at zero, each with its value beside it and its band as a whisker. Returns the distance of the title
    in points; None: the usual."""
    theme, peak = look.theme, look.peak(files_of(panel))
    longest = max((max(bar.value, min(bar.high, top)) for bar in bars if bar.value is not None), default=top)
    axes.set_xlim(0, max(1.03 * top, longest + VALUE_ROOM * top))
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.ticklabel_format(style="plain", axis="x", useOffset=False)
    if not SHORT_TICKS[0] <= top < SHORT_TICKS[1]:
        axes.locator_params(axis="x", nbins=FEW_TICKS)
    axes.set_xlabel(look.metric.label)
    if peak and peak <= top:
        axes.axvline(peak, color=theme.quiet, linewidth=1.2, linestyle=LIMIT_LINE, zorder=1)
        axes.annotate(
            f"theoretical {peak:.0f}", (peak, 1), (0, 3), ("data", "axes fraction"), "offset points", ha="right",
            fontsize=SMALL_PRINT, color=theme.muted,
        )  # fmt: skip
    if look.metric.ratio:
        axes.axvline(1, color=theme.quiet, linewidth=1.4, zorder=1)
    names = [_broken(bar.name, rows.width, rows.size) for bar in bars]
    axes.set_yticks(range(len(names)), names, fontsize=rows.size)
    for place, bar in enumerate(bars):
        _draw_bar(axes, place, bar, look, top, rows.size)
    return PEAK_PAD if peak and peak <= top else None


def _draw_bar(axes: Axes, place: int, bar: Bar, look: Look, top: float, size: float) -> None:
    """Draw the bar of a row. Its value has a font size of at most `size`."""
    theme, colour = look.theme, look.styles[bar.curve].colour
    end, text, ink = 0.0, bar.note, theme.readable(colour)
    if bar.value is not None:
        text, ink, end = four_digits(bar.value), theme.ink, min(bar.high, top)
        hatch = "" if bar.hollow else HATCHES[look.files.index(bar.file) % len(HATCHES)]
        axes.barh(
            place, bar.value, height=THICKNESS, color=theme.background if bar.hollow else colour, hatch=hatch,
            edgecolor=theme.background if hatch else colour, linewidth=1.5 if bar.hollow else 0,
        )  # fmt: skip
        if end - bar.low > SHORTEST_WHISKER * top:  # the halo makes it visible on a bar of any colour
            axes.hlines(place, bar.low, end, color=theme.background, linewidth=3.4, zorder=3)
            axes.hlines(place, bar.low, end, color=theme.ink, linewidth=1.3, zorder=3.1)
    plate = {"facecolor": theme.background, "linewidth": 0, "pad": 1}  # keeps lines out of the number
    axes.annotate(
        text, (max(end, bar.value or 0.0), place), (5, 0), "data", "offset points", va="center",
        fontsize=min(size, 11), color=ink, bbox=plate, zorder=2,
    )  # fmt: skip
