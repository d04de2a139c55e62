"""Pages of bars: a panel is one case with a bar per curve, the best on top. Curves without a value stand below with their
status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kbench.plotting.lines import hollow_entries
from kbench.plotting.names import four_digits
from kbench.plotting.pages import Look, Page, Point, Series, series_of, shared_limits
from kbench.plotting.scales import limits
from kbench.plotting.sheet import POINTS_PER_INCH, Grid, finish, make_panels, text_width, wrap, write_beside
from kbench.plotting.style import LIMIT_LINE, SMALL_PRINT, Theme

BESIDE = 0.45
"""The names of bars take at most this share of the width of a panel."""

FEW = 12
"""More bars are thinner."""


def draw_page(page: Page[Point], look: Look) -> Figure:
    """A page of bars. Names that are too long for a line have several."""
    panels = [sorted_bars(panel, look) for panel in page.panels]
    grid = Grid.of(page.titles)
    grid = replace(grid, beside=BESIDE * grid.width / grid.columns)
    room = grid.beside * POINTS_PER_INCH
    most = max(map(len, panels))
    longest = max(text_width(bar.name, 12) for bars in panels for bar in bars)
    size = 12.0 if most <= FEW and longest <= room else 9.5
    names = [[_in_lines(bar.name, room, size) for bar in bars] for bars in panels]
    lines = max(1 + name.count("\n") for of_panel in names for name in of_panel)
    bar_height = max(0.31 if most <= FEW else 0.2, 0.17 * lines)
    height = max(1.6, 0.9 + bar_height * most)
    figure, grid_axes = make_panels(grid, height * grid.rows)
    tops = []
    for bars in panels:
        _, top = limits([bar.whole for bar in bars if bar.whole], log=False)
        tops.append((0.0, max([top, *look.levels(bars, top).values()])))
    for axes, bars, of_panel, (_, top) in zip(grid_axes, panels, names, shared_limits(tops, look), strict=True):
        axes.set_yticks(range(len(bars)), of_panel, fontsize=size)
        _draw(axes, bars, look, top, size)
    return finish(figure, look.title(page), look.caption, hollow_entries(page.points, look), look.theme)


def sorted_bars(points: Sequence[Point], look: Look) -> list[Series]:
    """The series of a panel from top to bottom: the best first, those without a value last."""
    sign = look.metric.sign

    def rank(series: Series) -> tuple[bool, float, str, int]:
        value = series.whole
        return value is None, -sign * value.value if value else 0.0, series.curve, look.files.index(series.file)

    return sorted(series_of(points, look), key=rank)


def value_text(series: Series) -> str:
    """What stands beside a bar: its value, or why it has none."""
    if series.whole is not None:
        return four_digits(series.whole.value)
    if claims := [point.claimed for point in series.points if point.claimed is not None]:
        return f"suspect: {four_digits(median(claims))}"
    return ", ".join(sorted({point.row.status.value for point in series.points}))


def _in_lines(name: str, width: float, size: float) -> str:
    """A name in lines that fit into a width. They end after commas where they can."""
    return name if text_width(name, size) <= width else wrap(name.replace(",", ", "), width, size, indent="")


def _draw(axes: Axes, bars: Sequence[Series], look: Look, top: float, size: float) -> None:
    """Draw bars that begin at zero, each with its value beside it and its band as a whisker."""
    theme, levels = look.theme, look.levels(bars, top)
    longest = max((max(bar.whole.value, min(bar.whole.high, top)) for bar in bars if bar.whole), default=top)
    # with room for the value beside the longest bar
    axes.set_xlim(0, max(1.03 * top, longest + 0.14 * top))
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.ticklabel_format(style="plain", axis="x", useOffset=False)
    if not 0.05 <= top < 1e4:  # the numbers at the ticks are long
        axes.locator_params(axis="x", nbins=5)
    axes.set_xlabel(look.metric.label)
    for label, level in levels.items():
        axes.axvline(level, color=theme.quiet, linewidth=1.2, linestyle=LIMIT_LINE, zorder=1)
        small = {"ha": "right", "fontsize": SMALL_PRINT, "color": theme.muted}
        write_beside(axes, label, (level, 1), (0, 3), ("data", "axes fraction"), **small)
        axes.set_title(axes.get_title(loc="left"), loc="left", pad=17)  # above the label
    if look.metric.ratio:
        axes.axvline(1, color=theme.quiet, linewidth=1.4, zorder=1)
    for place, bar in enumerate(bars):
        _draw_bar(axes, place, bar, theme, top, size)


def _draw_bar(axes: Axes, place: int, bar: Series, theme: Theme, top: float, size: float) -> None:
    """Draw the bar of a row. Its value has a font size of at most `size`."""
    colour, value = bar.style.colour, bar.whole
    end, ink = 0.0, theme.readable(colour)
    if value is not None:
        high = min(value.high, top)
        end, ink = max(value.value, high), theme.ink
        face, edge = (theme.background, 1.5) if value.hollow else (colour, 0)
        axes.barh(place, value.value, height=0.68, color=face, edgecolor=colour, linewidth=edge)
        if high - value.low > 0.004 * top:  # the halo makes it visible on a bar of any colour
            axes.hlines(place, value.low, high, color=theme.background, linewidth=3.4, zorder=3)
            axes.hlines(place, value.low, high, color=theme.ink, linewidth=1.3, zorder=3.1)
    plate = {"facecolor": theme.background, "linewidth": 0, "pad": 1}  # keeps lines out of the number
    font = {"va": "center", "fontsize": min(size, 11), "color": ink, "bbox": plate, "zorder": 2}
    write_beside(axes, value_text(bar), (end, place), (5, 0), **font)
