"""Pages of lines and of bars.

Lines are values against sizes, with their bands, marks for rows without a value, and what is drawn behind them: the sizes that
fit into the cache, and the limits of the device. A panel of bars is one case with a bar per curve, the best on top. Curves
without a value stand below with their status.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from kbench.plotting.names import four_digits
from kbench.plotting.pages import COPY_CURVE, Look, Page, Point, Series, Value, series_of, shared_limits
from kbench.plotting.scales import limits, scale_x, scale_y
from kbench.plotting.sheet import (
    POINTS_PER_INCH,
    Grid,
    draw_strip,
    finish,
    make_panels,
    name_ends,
    strip_share,
    text_width,
    wrap,
    write_beside,
)
from kbench.plotting.style import LIMIT_LINE, MARK_SHAPES, QUESTION_MARK, SMALL_PRINT, Theme, row_mark
from kbench.results.case import natural_key

LINEAR_SPAN = 20
"""An axis is logarithmic where the largest value is more than this many times the smallest."""

HEADROOM = 0.09
"""Above the values, as a share of their height."""

BESIDE = 0.45
"""The names of bars take at most this share of the width of a panel."""

FEW = 12
"""More bars are thinner."""


def draw_lines(page: Page[Point], look: Look) -> Figure:
    """A page of lines. The curves of a single panel have their names at their ends, where these have room."""
    panels = [series_of(points, look) for points in page.panels]
    grid = Grid.of(page.titles)
    marks = []
    for panel in panels:
        lost = sorted((series for series in panel if series.marks), key=lambda series: natural_key(series.curve))
        marks.append([(series.style.colour, series.marks) for series in lost])
    strip = strip_share(max(map(len, marks)))
    log = any(wants_log(panel, look) for panel in panels)  # the same for all panels
    extents = shared_limits([extent_of(panel, look, log=log) for panel in panels], look)
    edges = [_resident_up_to(panel, look) for panel in panels]
    if all(edge == math.inf for edge in edges):  # there is nothing to tell apart
        edges = [None] * len(panels)
    figure, grid_axes = make_panels(grid, (4.1 if grid.columns == 1 else 3.3) * grid.rows)
    for axes, panel, extent, edge, of_panel in zip(grid_axes, panels, extents, edges, marks, strict=True):
        xs = sizes_of(panel)
        scale_x(axes, xs, grid.panel_width)
        scale_y(axes, *extent, strip)
        axes.set_xlabel(look.x)
        axes.set_ylabel(look.metric.label)
        _draw_backdrop(axes, panel, look, extent, edge)
        for place, series in enumerate(panel):
            if series.values:
                _draw_curve(axes, series, look.theme, xs, place)
            _draw_suspects(axes, series, look.theme, extent)
        if strip:
            thin: dict[str, Any] = {"color": look.theme.quiet, "linewidth": 0.8, "zorder": 1}
            axes.plot([0, 1], [strip, strip], transform=axes.transAxes, **thin)
        draw_strip(axes, of_panel, strip)
    at_ends = len(panels) == 1 and _have_room_at_ends(panels[0], look)
    if at_ends:
        curves = [(series.last, series.name, series.style.colour) for series in panels[0]]
        name_ends(grid_axes[0], curves, look.theme)
    legend = [] if at_ends else curve_entries(panels, look)
    legend += [*hollow_entries(page.points, look), *mark_entries(page.points, look)]
    return finish(figure, look.title(page), look.caption, legend, look.theme)


def sizes_of(panel: Iterable[Series]) -> list[float]:
    """All x of a panel, sorted."""
    return sorted({x for series in panel for x in series.by_x})


def wants_log(panel: Sequence[Series], look: Look) -> bool:
    """Whether a linear axis would press most of a panel flat: the largest value is far above the best that a provider reaches
    at some x. A picture of speeds should show that a slow curve is slow."""
    if look.metric.ratio:
        return False
    best = min if look.metric.lower_is_better else max
    everything = [value.value for series in panel for value in series.values.values()]
    by_x: dict[float, list[float]] = defaultdict(list)
    for series in panel:
        if series.curve != COPY_CURVE:
            for x, value in series.values.items():
                by_x[x].append(value.value)
    least = min(map(best, by_x.values()), default=0.0)
    return max(everything, default=0.0) > LINEAR_SPAN * least > 0


def extent_of(panel: Sequence[Series], look: Look, *, log: bool) -> tuple[float, float]:
    """The limits of y that suit the values of a panel, with headroom for names. The lower is 0 unless y is logarithmic."""
    bottom, top = limits([value for series in panel for value in series.values.values()], log=log)
    top = max([top, *look.levels(panel, top).values(), 1.0 if look.metric.ratio else 0.0])
    return bottom, top * (top / bottom) ** HEADROOM if bottom > 0 else top * (1 + HEADROOM)


def _draw_backdrop(
    axes: Axes, panel: Sequence[Series], look: Look, extent: tuple[float, float], cache_edge: float | None
) -> None:
    """Draw the limits of the device, and shade the sizes up to `cache_edge`."""
    theme, (bottom, top) = look.theme, extent
    across, small = ("axes fraction", "data"), {"fontsize": SMALL_PRINT, "color": theme.muted, "zorder": 1.5}
    levels = {label: level for label, level in look.levels(panel, top).items() if bottom < level < top}
    for label, level in levels.items():
        axes.axhline(level, color=theme.quiet, linewidth=1.2, linestyle=LIMIT_LINE, zorder=1)
        write_beside(axes, label, (1, level), (-2, 2), across, ha="right", va="bottom", **small)
    if look.metric.ratio:
        axes.axhline(1, color=theme.quiet, linewidth=1.4, zorder=1)
    if cache_edge is not None:
        left, right = axes.get_xlim()
        axes.axvspan(left, min(cache_edge, right), color=theme.shade, linewidth=0, zorder=0)
        # the last-level cache of a device is its L2; that of a host may be its L2 or its L3
        on_host = any(source.environment.device_type == "cpu" for source in look.sources)
        mebibytes = (look.agreed("cache_bytes", panel) or 0) / 2**20
        label = f"fits in {'cache' if on_host else 'L2'} ({mebibytes:.0f} MiB)"
        under = max(levels.values(), default=top)  # the levels have their labels above their lines
        write_beside(axes, label, (0, under), (5, -3), across, va="top", **small)


def _resident_up_to(panel: Sequence[Series], look: Look) -> float | None:
    """The x up to which the bytes of a call fit into the cache: infinite where they always fit, None where they never do, do
    not grow with x, or the cache is not known."""
    cache_bytes = look.agreed("cache_bytes", panel) if look.metric.timed else None
    bytes_by_x: dict[float, list[int]] = defaultdict(list)
    for series in panel:
        for x, points in series.by_x.items():
            rows = (point.row for point in points)
            # whole, without float noise
            bytes_by_x[x] += [round(row.gbps * row.ms * 1e6) for row in rows if row.gbps and row.ms]
    xs = sorted(x for x in bytes_by_x if bytes_by_x[x])
    sizes = [median(bytes_by_x[x]) for x in xs]
    if not cache_bytes or len(set(sizes)) < 2 or sizes != sorted(sizes) or sizes[0] > cache_bytes:
        return None
    return math.inf if sizes[-1] <= cache_bytes else float(np.interp(cache_bytes, sizes, xs))


def _draw_curve(axes: Axes, series: Series, theme: Theme, xs: Sequence[float], place: int) -> None:
    """Draw a line with its band. It breaks where the curve has no value at an x of another curve.

    About ten of its points have a marker, or thirty hollow ones, those of neighbouring curves (`place` is that of the curve)
    at different sizes. So has every point that no line reaches.
    """
    style, values = series.style, series.values
    colour = style.colour
    order = 2 if series.curve == COPY_CURVE else 3
    missing = Value(math.nan, math.nan, math.nan, frozenset())
    middles, lows, highs, _ = zip(*(values.get(x, missing) for x in xs), strict=True)
    axes.fill_between(xs, lows, highs, color=colour, alpha=0.15, linewidth=0, zorder=order)
    axes.plot(xs, middles, color=colour, linestyle=style.line, zorder=order)
    if not style.marker:
        return
    present = [False, *(x in values for x in xs), False]
    neighbours = zip(xs, present, present[1:], present[2:], strict=False)
    alone = [x for x, before, here, after in neighbours if here and not (before or after)]
    for hollow, most in ((False, 10), (True, 30)):
        face, edge, width = (theme.background, colour, 1.5) if hollow else (colour, theme.background, 0.6)
        every = max(1, len(values) // most)
        # the golden section spreads the markers of any number of curves
        offset = round(0.382 * place * every) % every
        chosen = {*xs[offset::every], *alone}
        shown = [x for x, value in values.items() if bool(value.hollow) == hollow and x in chosen]
        if shown:
            heights = [values[x].value for x in shown]
            marks = {"markerfacecolor": face, "markeredgecolor": edge, "markeredgewidth": width, **style.points}
            axes.plot(shown, heights, color=colour, linestyle="", zorder=order + 0.5, **marks)


def _draw_suspects(axes: Axes, series: Series, theme: Theme, extent: tuple[float, float]) -> None:
    """Draw a question mark at each claimed value. Values beyond the axis have it at the edge."""
    bottom, top = extent
    low, high = (1.1 * bottom, top / 1.1) if bottom > 0 else (0.03 * top, 0.97 * top)
    claims = [(x, point.claimed) for x, points in series.by_x.items() for point in points if point.claimed is not None]
    if claims:
        xs, values = zip(*claims, strict=True)
        colour = theme.readable(series.style.colour)
        inside = np.clip(values, low, high)
        axes.plot(xs, inside, color=colour, marker=QUESTION_MARK, linestyle="", markersize=11, zorder=5)


def _have_room_at_ends(panel: Sequence[Series], look: Look) -> bool:
    """Whether each curve can have its name at its end: they are few, short, and each reaches the end of the panel."""
    if len(look.files) > 1 or len(panel) > 9:
        return False
    end = sizes_of(panel)[-1]
    return all(end in series.values and text_width(series.name, 12) <= 170 for series in panel)


def curve_entries(panels: Iterable[Sequence[Series]], look: Look) -> list[Line2D]:
    """Legend entries of the curves, the highest last value first, then of the files where there are several."""
    several = len(look.files) > 1
    lasts: dict[str, float] = defaultdict(lambda: -math.inf)
    for panel in panels:
        for series in panel:
            lasts[series.curve] = max(lasts[series.curve], series.last)
    entries = []
    for curve in sorted(lasts, key=lambda curve: (-lasts[curve], natural_key(curve))):
        style = look.styles[curve]
        line: Any = "-" if several else style.line
        entries.append(Line2D([], [], label=look.names[curve], color=style.colour, linestyle=line, **style.points))
    for file in look.files if several else ():
        entries.append(Line2D([], [], label=file, color=look.theme.ink, linestyle=look.line(file), linewidth=1.6))
    return entries


def hollow_entries(points: Iterable[Point], look: Look) -> list[Line2D]:
    """A legend entry of hollow points or bars, if there are any. It is grey, because they have the colour of their provider."""
    flags = hollow_flags(points)
    theme = look.theme
    ring = Line2D([], [], color=theme.muted, marker="o", linestyle="", label=flags)
    ring.set(markerfacecolor=theme.background, markeredgewidth=1.5)
    return [ring] if flags else []


def mark_entries(points: Sequence[Point], look: Look) -> list[Line2D]:
    """Legend entries of the marks of rows without a value."""
    grey = look.theme.muted
    entries = []
    if any(point.claimed is not None for point in points):
        question = Line2D([], [], color=grey, marker=QUESTION_MARK, markersize=9, linestyle="")
        question.set_label("suspect: implausible time")
        entries.append(question)
    occurring = {point.mark for point in points}
    for shape in dict.fromkeys(MARK_SHAPES.values()):
        statuses = [status for status in MARK_SHAPES if status in occurring and MARK_SHAPES[status] == shape]
        label = ", ".join(status.value for status in statuses)
        entries += [Line2D([], [], label=label, color=grey, **row_mark(status)) for status in statuses[:1]]
    return entries


def hollow_flags(points: Iterable[Point]) -> str:
    """`host-bound or overhead-bound`: the flags for which values are drawn hollow. The copy has no points."""
    drawn = (point.value.hollow for point in points if point.value is not None and point.curve != COPY_CURVE)
    return " or ".join(sorted(set[str]().union(*drawn)))


def draw_bars(page: Page[Point], look: Look) -> Figure:
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
        _draw_panel_of_bars(axes, bars, look, top, size)
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


def _draw_panel_of_bars(axes: Axes, bars: Sequence[Series], look: Look, top: float, size: float) -> None:
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
