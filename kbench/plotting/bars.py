"""Pages of bars: a panel is one case with a bar per curve, the best on top. Curves without a value stand below with their
status."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kbench.plotting.lines import DrawnCurve, hollow_entries
from kbench.plotting.names import four_digits, title_of
from kbench.plotting.pages import Look, Page, shared_limits
from kbench.plotting.points import Point, Series, series_of
from kbench.plotting.scales import limits
from kbench.plotting.sheet import PAGE_WIDTHS, POINTS_PER_INCH, grid, make_page, text_width, wrap
from kbench.plotting.style import LIMIT_LINE, SMALL_PRINT

BESIDE = 0.45
"""The names of bars take at most this share of the width of a panel."""


def draw_page(page: Page[Point], look: Look) -> tuple[Figure, list[DrawnCurve]]:
    """A page of bars, which has no curves."""
    panels = [series_of(panel.points) for panel in page.panels]
    bars_of_panels = [bars_of(panel, look) for panel in panels]
    rows = BarRows.of(bars_of_panels, grid(len(panels))[0])
    extents = [(0.0, top_of(panel, bars, look)) for panel, bars in zip(panels, bars_of_panels, strict=True)]
    figure, grid_axes = make_page(
        len(panels),
        rows.columns,
        rows.inches * math.ceil(len(panels) / rows.columns),
        title_of(page.whole(look.titled)),
        look.caption,
        [hollow_entries(page.points, look)],
        look.theme,
    )
    width = POINTS_PER_INCH * PAGE_WIDTHS[rows.columns] / rows.columns * (1 - BESIDE)
    for axes, panel, series, bars, (_, top) in zip(
        grid_axes, page.panels, panels, bars_of_panels, shared_limits(extents, look), strict=True
    ):
        pad = draw(axes, series, bars, look, top, rows)
        axes.set_title(wrap(title_of(panel.where), width, 12), loc="left", pad=pad)
    return figure, []


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
    bars = []
    for series in panel:
        curve, file = series.curve, series.file
        name = look.names[curve] if len(look.files) == 1 else f"{look.names[curve]} · {file}"
        if values := series.values.values():
            value = median(value.value for value in values)
            low, high = min(value.low for value in values), max(value.high for value in values)
            bars.append(Bar(curve, file, name, value, low, high, any(value.hollow for value in values)))
        elif claims := [point.claimed for point in series.points if point.claimed is not None]:
            bars.append(Bar(curve, file, name, note=f"suspect: {four_digits(median(claims))}"))
        else:
            bars.append(
                Bar(curve, file, name, note=", ".join(sorted({point.row.status.value for point in series.points})))
            )
    sign = look.metric.sign
    bars.sort(key=lambda bar: (bar.value is None, -sign * (bar.value or 0.0), bar.curve, look.files.index(bar.file)))
    return bars


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
        size, row = (12.0, 0.31) if most <= 12 else (9.5, 0.2)
        longest = max(text_width(name, size) for name in names)
        width = BESIDE * POINTS_PER_INCH * PAGE_WIDTHS[columns] / columns
        if most > 12 and longest > width:
            columns, width = 1, BESIDE * POINTS_PER_INCH * PAGE_WIDTHS[1]
        size = size if longest <= width else 9.5
        lines = max(1 + _broken(name, width, size).count("\n") for name in names)
        return cls(columns, max(1.6, 0.9 + max(row, 0.17 * lines) * most), size, width)


def _broken(name: str, width: float, size: float) -> str:
    """A name in lines that fit into a width. They end after commas where they can."""
    return name if text_width(name, size) <= width else wrap(name.replace(",", ", "), width, size, indent="")


def top_of(panel: Sequence[Series], bars: Sequence[Bar], look: Look) -> float:
    """The end of the axis that suits the values of a panel."""
    measured = [bar for bar in bars if bar.value is not None]
    _, top = limits([bar.value or 0.0 for bar in measured], [bar.high for bar in measured], log=False)
    peak = look.peak(panel)
    return peak if peak and top > peak / 2 else top


def draw(
    axes: Axes, panel: Sequence[Series], bars: Sequence[Bar], look: Look, top: float, rows: BarRows
) -> float | None:
    """Draw bars that begin at zero, each with its value beside it and its band as a whisker. Returns the distance of the title
    in points; None: the usual."""
    theme, peak = look.theme, look.peak(panel)
    longest = max((max(bar.value, min(bar.high, top)) for bar in bars if bar.value is not None), default=top)
    axes.set_xlim(0, max(1.03 * top, longest + 0.14 * top))  # with room for the value beside the longest bar
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.ticklabel_format(style="plain", axis="x", useOffset=False)
    if not 0.05 <= top < 1e4:  # the numbers at the ticks are long
        axes.locator_params(axis="x", nbins=5)
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
    return 17.0 if peak and peak <= top else None  # room for the name of the peak


def _draw_bar(axes: Axes, place: int, bar: Bar, look: Look, top: float, size: float) -> None:
    """Draw the bar of a row. Its value has a font size of at most `size`."""
    theme, colour = look.theme, look.styles[bar.curve].colour
    end, text, ink = 0.0, bar.note, theme.readable(colour)
    if bar.value is not None:
        text, ink, end = four_digits(bar.value), theme.ink, max(bar.value, min(bar.high, top))
        axes.barh(
            place, bar.value, height=0.68, color=theme.background if bar.hollow else colour, edgecolor=colour,
            linewidth=1.5 if bar.hollow else 0,
        )  # fmt: skip
        if min(bar.high, top) - bar.low > 0.004 * top:  # the halo makes it visible on a bar of any colour
            axes.hlines(place, bar.low, min(bar.high, top), color=theme.background, linewidth=3.4, zorder=3)
            axes.hlines(place, bar.low, min(bar.high, top), color=theme.ink, linewidth=1.3, zorder=3.1)
    plate = {"facecolor": theme.background, "linewidth": 0, "pad": 1}  # keeps lines out of the number
    axes.annotate(
        text, (end, place), (5, 0), "data", "offset points", va="center", fontsize=min(size, 11), color=ink, bbox=plate,
        zorder=2,
    )  # fmt: skip
