"""Pages of lines: values against sizes with their bands, marks for rows without a value, and what is drawn behind them: the
sizes that fit into the cache, and the limits of the device."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from kbench.plotting.names import four_digits, natural, natural_key, title_of
from kbench.plotting.pages import Look, Page, shared_limits
from kbench.plotting.points import COPY_CURVE, MARKED, VALUE, Point, Series, Value, series_of
from kbench.plotting.scales import height_share, limits, scale_x, scale_y
from kbench.plotting.sheet import (
    POINTS_PER_INCH,
    LegendEntry,
    grid,
    make_page,
    panel_width,
    text_width,
    wrap,
)
from kbench.plotting.style import LIMIT_LINE, QUESTION_MARK, SMALL_PRINT, Theme, row_mark

SPAN_OF_TIMES, SPAN_OF_SPEEDS = 10, 20
"""An axis is logarithmic where the largest value is more than this many times the smallest."""

STRIP_ROW = 0.05
"""Height of a row of marks below the values, as a share of the panel."""

Extent = tuple[float, float]
"""The limits of y. The lower one is 0 unless the axis is logarithmic."""


class DrawnCurve(NamedTuple):
    """A curve of a panel, with its values by x."""

    axes: Axes
    name: str
    values: dict[float, Value]


def draw_page(page: Page[Point], look: Look) -> tuple[Figure, list[DrawnCurve]]:
    """A page of lines. The curves of a single panel have their names at their ends, where these have room."""
    panels = [series_of(panel.points) for panel in page.panels]
    columns, rows = grid(len(panels))
    height = 4.1 if columns == 1 else 3.3
    strip = max(map(strip_of, panels))
    log = any(wants_log(panel, look) for panel in panels)  # the same for all panels
    edges = cache_edges(panels, look)
    extents = [extent_of(panel, look, edge, log=log) for panel, edge in zip(panels, edges, strict=True)]
    extents = shared_limits(extents, look)
    ends: list[End] = []
    if len(panels) == 1:
        ends = ends_of(panels[0], look, extents[0], (height - 0.75) * (1 - strip) * POINTS_PER_INCH)
    marks = [*hollow_entries(page.points, look), *mark_entries(page.points, look)]
    legends = [[] if ends else curve_entries(panels, look), marks]
    title = title_of(page.whole(look.titled))
    figure, grid_axes = make_page(len(panels), columns, height * rows, title, look.caption, legends, look.theme)
    drawn: list[DrawnCurve] = []
    for axes, panel, series, extent, edge in zip(grid_axes, page.panels, panels, extents, edges, strict=True):
        drawn += draw(axes, series, look, extent, strip, panel_width(columns), edge)
        draw_ends(axes, ends, look.theme)
        axes.set_title(wrap(title_of(panel.where), panel_width(columns), 12), loc="left")
    return figure, drawn


def draw(
    axes: Axes,
    panel: Sequence[Series],
    look: Look,
    extent: Extent,
    strip: float,
    width: float,
    cache_edge: float | None,
) -> list[DrawnCurve]:
    """Draw a panel between the limits `extent`, above a strip for marks. It is `width` points wide. `cache_edge` is that of
    `cache_edges`."""
    xs = sizes_of(panel)
    scale_x(axes, xs, width)
    scale_y(axes, *extent, strip)
    axes.set_xlabel(look.x)
    axes.set_ylabel(look.metric.label)
    _draw_backdrop(axes, panel, look, extent, cache_edge)
    curves = []
    for place, series in enumerate(panel):
        if series.values:
            _draw_curve(axes, series, look, xs, place)
            name = f"{series.curve} · {series.file}" if len(look.files) > 1 else series.curve
            curves.append(DrawnCurve(axes, name, series.values))
        _draw_suspects(axes, series, look, extent)
    if strip:
        axes.plot([0, 1], [strip, strip], color=look.theme.quiet, linewidth=0.8, zorder=1, transform=axes.transAxes)
        names = natural({series.curve for series in panel if series.marks})
        height = min(STRIP_ROW, strip / max(1, len(names)))
        for series in panel:
            y = strip - (names.index(series.curve) + 0.5) * height if series.marks else 0.0
            draw_marks(axes, series.marks, y, look.styles[series.curve].colour, height / STRIP_ROW)
    return curves


def sizes_of(panel: Iterable[Series]) -> list[float]:
    """All x of a panel, sorted."""
    return sorted({x for series in panel for x in series.by_x})


def is_line(points: Iterable[Point]) -> bool:
    """Whether values stand at more than one x."""
    return len({point.x for point in points if point.kind == VALUE} - {None}) > 1


def wants_log(panel: Sequence[Series], look: Look) -> bool:
    """Whether a linear axis would press most of a panel flat.

    Times do so if they span more than SPAN_OF_TIMES, speeds if the largest is more than SPAN_OF_SPEEDS times the best that a
    provider reaches at some x: the copy control may be far above all of them. A slow curve beside fast ones is no reason: the
    picture should show that it is slow.
    """
    if look.metric.ratio:
        return False
    everything = [value.value for series in panel for value in series.values.values()] or [0.0]
    if look.metric.lower_is_better:
        return max(everything) > SPAN_OF_TIMES * min(everything) > 0
    values: dict[float, list[float]] = defaultdict(list)
    for series in panel:
        if series.curve != COPY_CURVE:
            for x, value in series.values.items():
                values[x].append(value.value)
    best = [max(of_x) for of_x in values.values()] or [0.0]
    return max(everything) > SPAN_OF_SPEEDS * min(best) > 0


def extent_of(panel: Sequence[Series], look: Look, cache_edge: float | None, *, log: bool) -> Extent:
    """The limits of y that suit the values of a panel, with headroom where something is named there."""
    values = [value for series in panel for value in series.values.values()]
    bottom, top = limits([value.value for value in values], [value.high for value in values], log=log)
    near = [level for level in levels(panel, look).values() if level < 2 * top]
    top = max([top, *near, 1.04 if look.metric.ratio else 0.0])
    if near or cache_edge is not None:
        share = 0.08 / 0.92
        top = top * (top / bottom) ** share if bottom > 0 else top * (1 + share)
    return bottom, top


def strip_of(panel: Iterable[Series]) -> float:
    """The share of a panel's height that its marks need: a row for each curve that has any, at most 30 %."""
    return min(0.3, STRIP_ROW * len({series.curve for series in panel if series.marks}))


# -- behind the curves


def _draw_backdrop(axes: Axes, panel: Sequence[Series], look: Look, extent: Extent, cache_edge: float | None) -> None:
    theme = look.theme
    small: dict[str, Any] = {
        "textcoords": "offset points",
        "fontsize": SMALL_PRINT,
        "color": theme.muted,
        "zorder": 1.5,
    }
    limits = {label: level for label, level in levels(panel, look).items() if extent[0] < level < extent[1]}
    for label, level in limits.items():
        axes.axhline(level, color=theme.quiet, linewidth=1.2, linestyle=LIMIT_LINE, zorder=1)
        axes.annotate(label, (1, level), (-2, 2), ("axes fraction", "data"), ha="right", va="bottom", **small)
    if look.metric.ratio:
        axes.axhline(1, color=theme.quiet, linewidth=1.4, zorder=1)
    if cache_edge is not None:
        left, right = axes.get_xlim()
        axes.axvspan(left, min(cache_edge, right), color=theme.shade, linewidth=0, zorder=0)
        # the last-level cache of a device is its L2; that of a host may be its L2 or its L3
        on_host = any(source.environment.device_type == "cpu" for source in look.sources)
        mebibytes = (look.agreed("cache_bytes", panel) or 0) / 2**20
        label = f"fits in {'cache' if on_host else 'L2'} ({mebibytes:.0f} MiB)"
        under = max(limits.values(), default=extent[1])  # the limits have their labels above their lines
        axes.annotate(label, (0, under), (5, -3), ("axes fraction", "data"), va="top", **small)


def cache_edges(panels: Sequence[Sequence[Series]], look: Look) -> list[float | None]:
    """The x up to which the bytes of a call fit into the cache, for each panel of a page. All are None if everything on the
    page fits: there is nothing to tell apart."""
    edges = [_resident_up_to(panel, look) for panel in panels]
    return [None] * len(edges) if all(edge == math.inf for edge in edges) else edges


def _resident_up_to(panel: Sequence[Series], look: Look) -> float | None:
    """The x up to which the bytes of a call fit into the cache.

    It is infinite where they always fit, and None where they never fit, do not grow with x, or the cache is not known.
    """
    cache_bytes = look.agreed("cache_bytes", panel) if look.metric.timed else None
    if not cache_bytes:
        return None
    of_rows: dict[float, list[float]] = defaultdict(list)
    for x, row in ((x, point.row) for series in panel for x, points in series.by_x.items() for point in points):
        if row.gbps and row.ms:
            of_rows[x].append(round(row.gbps * row.ms * 1e6))  # whole, without float noise
    xs = sorted(of_rows)
    sizes = [median(of_rows[x]) for x in xs]
    if len(set(sizes)) < 2 or sizes != sorted(sizes) or sizes[0] > cache_bytes:
        return None
    first = next((place for place, size in enumerate(sizes) if size > cache_bytes), 0)
    if not first:
        return math.inf
    part = (cache_bytes - sizes[first - 1]) / (sizes[first] - sizes[first - 1])
    return xs[first - 1] + part * (xs[first] - xs[first - 1])


def levels(panel: Sequence[Series], look: Look) -> dict[str, float]:
    """Limits of the device in the unit of the metric, by name with value: of its memory for GB/s, of its arithmetic for
    TFLOP/s. The large copy of the session is one only where there is no copy control."""
    limits_by_name = {"theoretical": look.peak(panel)}
    if look.metric.name == "gbps" and not any(series.curve == COPY_CURVE for series in panel):
        limits_by_name["large copy"] = _median_of("ceiling_gbps", panel)
    if look.metric.name == "tflops":
        limits_by_name["large matmul"] = _median_of("ceiling_tflops", panel)
    return {
        f"{name} {f'{level:.0f}' if level >= 100 else four_digits(level)}": level
        for name, level in limits_by_name.items()
        if level
    }


def _median_of(column: str, panel: Iterable[Series]) -> float:
    values: list[float | None] = [getattr(point.row, column) for series in panel for point in series.points]
    return median([value for value in values if value is not None] or [0.0])


# -- curves


def _draw_curve(axes: Axes, series: Series, look: Look, xs: Sequence[float], place: int) -> None:
    """Draw a line with its band. It breaks where the curve has no value at an x of another curve.

    About ten of its points have a marker, those of neighbouring curves (`place` is that of the curve) at different sizes, and
    every point that no line reaches. Three times as many hollow points have one.
    """
    style, back, line = look.styles[series.curve], look.theme.background, series.values
    order = 2 if series.curve == COPY_CURVE else 3
    missing = Value(math.nan, math.nan, math.nan, hollow=False)
    values, lows, highs, _ = zip(*(line.get(x, missing) for x in xs), strict=True)
    axes.fill_between(xs, lows, highs, color=style.colour, alpha=0.15, linewidth=0, zorder=order)
    axes.plot(xs, values, color=style.colour, linestyle=look.line(series.curve, series.file), zorder=order)
    if not style.marker:
        return
    present = [False, *(x in line for x in xs), False]
    alone = [x for i, x in enumerate(xs, start=1) if present[i] and not (present[i - 1] or present[i + 1])]
    for hollow, most, face, edge, width in ((False, 10, style.colour, back, 0.6), (True, 30, back, style.colour, 1.5)):
        every = max(1, len(line) // most)
        offset = round(0.382 * place * every) % every  # the golden section spreads the markers of any number of curves
        chosen = {*xs[offset::every], *alone}
        shown = [x for x, value in line.items() if value.hollow == hollow and x in chosen]
        if shown:
            axes.plot(
                shown, [line[x].value for x in shown], color=style.colour, linestyle="", markerfacecolor=face,
                markeredgecolor=edge, markeredgewidth=width, zorder=order + 0.5, **style.points,
            )  # fmt: skip


def _draw_suspects(axes: Axes, series: Series, look: Look, extent: Extent) -> None:
    """Draw a question mark at each claimed value. Values beyond the axis have it at the edge."""
    bottom, top = extent
    low, high = (1.1 * bottom, top / 1.1) if bottom > 0 else (0.03 * top, 0.97 * top)
    claims = [
        (x, min(max(point.claimed, low), high))
        for x, points in series.by_x.items()
        for point in points
        if point.claimed is not None
    ]
    colour = look.theme.readable(look.styles[series.curve].colour)
    if claims:
        axes.plot(*zip(*claims, strict=True), color=colour, marker=QUESTION_MARK, linestyle="", markersize=11, zorder=5)


def draw_marks(axes: Axes, marks: Mapping[str, Sequence[float]], y: float, colour: str, scale: float) -> None:
    """Draw a row of marks at a share of the panel's height: the x of rows without a value, by their kind."""
    for kind, xs in marks.items():
        axes.plot(
            xs, [y] * len(xs), color=colour, zorder=4, transform=axes.get_xaxis_transform(), **row_mark(kind, scale)
        )  # fmt: skip


# -- names


class End(NamedTuple):
    """What is written at the end of a line: a text in a colour, at a value that is `height` points above the axis."""

    value: float
    text: str
    colour: str
    height: float


def ends_of(panel: Sequence[Series], look: Look, extent: Extent, height: float) -> list[End]:
    """The names of curves, if each can stand at the end of its line in place of a legend: they are few, short, and each line
    reaches the end of the panel. Otherwise nothing. The panel without its strip is `height` points high."""
    end = sizes_of(panel)[-1]
    too_long = any(text_width(look.names[series.curve], 12) > 170 for series in panel)
    if len(look.files) > 1 or len(panel) > 9 or too_long or any(end not in series.values for series in panel):
        return []
    ends = []
    for series in panel:
        value = series.values[end].value
        colour = look.styles[series.curve].colour
        ends.append(End(value, look.names[series.curve], colour, height_share(value, extent) * height))
    return ends


def draw_ends(
    axes: Axes, ends: Iterable[End], theme: Theme, size: float = 12, apart: float = 14, *, leaders: bool = True
) -> None:
    """Write texts right of a panel, `apart` points from it. With `leaders` thin lines lead to them, also to one that had to
    move."""
    ordered = sorted(ends)
    right = axes.get_xlim()[1]
    for end, place in zip(ordered, spread([end.height for end in ordered], 1.25 * size), strict=True):
        leader = {
            "arrowstyle": "-",
            "color": end.colour,
            "linewidth": 0.9,
            "shrinkA": 0,
            "shrinkB": 0,
            "relpos": (0, 0.5),
        }
        axes.annotate(
            end.text, (right, end.value), (apart, place - end.height), "data", "offset points", va="center",
            fontsize=size, color=theme.readable(end.colour), annotation_clip=False, arrowprops=leader if leaders else None,
        )  # fmt: skip


def spread(heights: Sequence[float], apart: float) -> list[float]:
    """Sorted heights, moved to a distance of `apart`. Names that touch move as a group, as little as possible, and none moves
    below 0."""
    groups: list[list[float]] = []
    for height in heights:
        groups.append([height])
        while len(groups) > 1 and _first(groups[-1], apart) < _first(groups[-2], apart) + len(groups[-2]) * apart:
            last = groups.pop()
            groups[-1] += last
    return [_first(group, apart) + place * apart for group in groups for place in range(len(group))]


def _first(group: Sequence[float], apart: float) -> float:
    """The height of the first name of a group that is centred on the heights its members want."""
    return max(0.0, sum(wish - place * apart for place, wish in enumerate(group)) / len(group))


def curve_entries(panels: Iterable[Sequence[Series]], look: Look) -> list[LegendEntry]:
    """Legend entries of the curves, the highest last value first, then of the files where there are several."""
    several = len(look.files) > 1
    members = [series for panel in panels for series in panel]
    lasts: dict[str, float] = {}
    for series in members:
        lasts[series.curve] = max(lasts.get(series.curve, -math.inf), -math.inf if series.last is None else series.last)
    entries: list[LegendEntry] = []
    for curve in sorted(lasts, key=lambda curve: (-lasts[curve], natural_key(curve))):
        style = look.styles[curve]
        handle = Line2D([], [], color=style.colour, linestyle="-" if several else style.line, **style.points)
        entries.append((look.names[curve], handle))
    for file in look.files if several else ():
        line = look.line(COPY_CURVE, file)
        entries.append((file, Line2D([], [], color=look.theme.ink, linestyle=line, linewidth=1.6)))
    return entries


def hollow_entries(points: Iterable[Point], look: Look) -> list[LegendEntry]:
    """A legend entry of hollow points or bars, if there are any. It is grey, because they have the colour of their provider."""
    ring: dict[str, Any] = {"markerfacecolor": look.theme.background, "markeredgewidth": 1.5}
    handle = Line2D([], [], color=look.theme.muted, marker="o", linestyle="", **ring)
    return [(flags, handle)] if (flags := hollow_flags(points)) else []


def mark_entries(points: Sequence[Point], look: Look) -> list[LegendEntry]:
    """Legend entries of the marks of rows without a value."""
    grey = look.theme.muted
    entries: list[LegendEntry] = []
    if any(point.claimed is not None for point in points):
        question = Line2D([], [], color=grey, marker=QUESTION_MARK, linestyle="", markersize=9)
        entries.append(("suspect: implausible time", question))
    for kind in MARKED:
        if statuses := {point.row.status.value for point in points if point.kind == kind}:
            entries.append((", ".join(sorted(statuses)), Line2D([], [], color=grey, **row_mark(kind))))
    return entries


def hollow_flags(points: Iterable[Point]) -> str:
    """`host-bound or overhead-bound`: the flags for which values are drawn hollow. The copy has no points."""
    drawn = (point.hollow for point in points if point.value is not None and point.curve != COPY_CURVE)
    return " or ".join(sorted(set[str]().union(*drawn)))
