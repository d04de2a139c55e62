"""A panel of lines: values against sizes with their bands, marks for rows without a value, and what is drawn behind them:
the sizes that fit into the cache, and the limits of the device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from kbench.plotting.look import Look
from kbench.plotting.names import four_digits, natural
from kbench.plotting.points import ABSENT, COPY_CURVE, MARKED, VALUE, hollow_flags, pool
from kbench.plotting.scales import height_share, limits, scale_x, scale_y
from kbench.plotting.sheet import LegendEntry, text_width
from kbench.plotting.style import LIMIT_LINE, QUESTION_MARK, SMALL_PRINT, row_mark

MARKERS_PER_LINE = 10

STRIP_ROW, HIGHEST_STRIP = 0.05, 0.3
"""Height of a row of marks below the values, and the most of all rows together, as shares of the panel."""

HEADROOM = 0.08
"""The share of a panel above all curves, where a panel names the cache or a limit."""

SPAN_OF_TIMES, SPAN_OF_SPEEDS = 10, 20
"""An axis is logarithmic where the largest value is more than this many times the smallest."""

NEAR_LEVEL = 2
"""An axis reaches up to a limit of the device that is below this many times its top."""

LABEL_SIZE, LABEL_HEIGHT, LABEL_WIDTH = 12, 15.0, 170
"""Of the name at the end of a line: its font size, its height and the most of its width, in points."""

MOST_LABELS = 9
"""With more curves the names stand in a legend."""

Extent = tuple[float, float]
"""The limits of y. The lower one is 0 unless the axis is logarithmic."""


class DrawnCurve(NamedTuple):
    """A curve of a panel. `points` are its value, low and high by x."""

    axes: Axes
    name: str
    points: pd.DataFrame


def draw(
    axes: Axes, panel: pd.DataFrame, look: Look, extent: Extent, strip: float, width: float, cache_edge: float | None
) -> list[DrawnCurve]:
    """Draw a panel between the limits `extent`, above a strip for marks. It is `width` points wide. `cache_edge` is that of
    `cache_edges`."""
    values = panel[panel["kind"] == VALUE]
    xs = sorted(panel.loc[panel["kind"] != ABSENT, "x"].dropna().unique())
    scale_x(axes, xs, width)
    scale_y(axes, *extent, strip)
    axes.set_xlabel(look.x)
    axes.set_ylabel(look.metric.label)
    _draw_backdrop(axes, panel, look, extent, cache_edge)
    curves: list[DrawnCurve] = []
    for place, ((file, curve), group) in enumerate(values.groupby(["file", "curve"])):
        if group["x"].isna().all():
            _draw_level(axes, group, str(curve), look)
        else:
            line = pool(group, "x").reindex(xs)
            _draw_curve(axes, line, str(curve), look, str(file), place)
            name = f"{curve} · {file}" if len(look.files) > 1 else str(curve)
            curves.append(DrawnCurve(axes, name, line[line["value"].notna()]))
    _draw_suspects(axes, values, look, extent)
    _draw_marks(axes, panel, look, xs, strip)
    return curves


def is_line(panel: pd.DataFrame) -> bool:
    """Whether values stand at more than one x."""
    return bool(panel.loc[panel["kind"] == VALUE, "x"].nunique() > 1)


def wants_log(panel: pd.DataFrame, look: Look) -> bool:
    """Whether a linear axis would press most of a panel flat.

    Times do so if they span more than SPAN_OF_TIMES, speeds if the best at each x span more than SPAN_OF_SPEEDS. A slow
    curve beside fast ones is no reason: the picture should show that it is slow.
    """
    values = panel[(panel["kind"] == VALUE) & panel["value"].notna()]
    if look.metric.ratio or values.empty:
        return False
    if look.metric.lower_is_better:
        return bool(values["value"].max() > SPAN_OF_TIMES * values["value"].min() > 0)
    best = values.groupby("x")["value"].max()
    return bool(best.max() > SPAN_OF_SPEEDS * best.min() > 0)


def extent_of(panel: pd.DataFrame, look: Look, cache_edge: float | None, *, log: bool) -> Extent:
    """The limits of y that suit the values of a panel, with headroom where something is named there."""
    shown = panel[panel["kind"] == VALUE]
    values, highs = shown["value"].dropna().tolist(), shown["high"].dropna().tolist()
    bottom, top = limits(values, highs, log=log)
    near = [level for level in levels(panel, look).values() if level < NEAR_LEVEL * top]
    top = max([top, *near, 1.04 if look.metric.ratio else 0.0])
    if near or cache_edge is not None:
        share = HEADROOM / (1 - HEADROOM)
        top = top * (top / bottom) ** share if bottom > 0 else top * (1 + share)
    return bottom, top


def strip_of(panel: pd.DataFrame) -> float:
    """The share of a panel's height that its marks need: a row for each curve that has any."""
    return min(HIGHEST_STRIP, STRIP_ROW * int(_marked_rows(panel)["curve"].nunique()))


def _marked_rows(panel: pd.DataFrame) -> pd.DataFrame:
    return panel[panel["kind"].isin(MARKED) & panel["x"].notna()]


# -- behind the curves


def _draw_backdrop(axes: Axes, panel: pd.DataFrame, look: Look, extent: Extent, cache_edge: float | None) -> None:
    theme = look.theme
    small: dict[str, Any] = {
        "textcoords": "offset points",
        "fontsize": SMALL_PRINT,
        "color": theme.muted,
        "zorder": 1.5,
    }
    for label, level in levels(panel, look).items():
        if extent[0] < level < extent[1]:
            axes.axhline(level, color=theme.quiet, linewidth=1.2, linestyle=LIMIT_LINE, zorder=1)
            axes.annotate(label, (1, level), (-2, 2), ("axes fraction", "data"), ha="right", va="bottom", **small)
    if look.metric.ratio:
        axes.axhline(1, color=theme.quiet, linewidth=1.4, zorder=1)
    if cache_edge is not None:
        left, right = axes.get_xlim()
        axes.axvspan(left, min(cache_edge, right), color=theme.shade, linewidth=0, zorder=0)
        # the last-level cache of a device is its L2; that of a host may be its L2 or its L3
        on_host = any(source.environment.device_type == "cpu" for source in look.sources)
        mebibytes = (look.agreed("cache_bytes", panel["file"]) or 0) / 2**20
        label = f"fits in {'cache' if on_host else 'L2'} ({mebibytes:.0f} MiB)"
        axes.annotate(label, (0, 1), (5, -3), "axes fraction", va="top", **small)


def cache_edges(panels: Sequence[pd.DataFrame], look: Look) -> list[float | None]:
    """The x up to which the bytes of a call fit into the cache, for each panel of a page. All are None if everything on the
    page fits: there is nothing to tell apart."""
    edges = [_resident_up_to(panel, look) for panel in panels]
    return [None] * len(edges) if all(edge == math.inf for edge in edges) else edges


def _resident_up_to(panel: pd.DataFrame, look: Look) -> float | None:
    """The x up to which the bytes of a call fit into the cache.

    It is infinite where they always fit, and None where they never fit, do not grow with x, or the cache is not known.
    """
    cache_bytes = look.agreed("cache_bytes", panel["file"]) if look.metric.timed else None
    if not cache_bytes:
        return None
    rows = panel[(panel["bytes"] > 0) & panel["x"].notna()]
    sizes = rows.groupby("x")["bytes"].median()
    if sizes.nunique() < 2 or not sizes.is_monotonic_increasing or sizes.iloc[0] > cache_bytes:
        return None
    beyond = sizes[sizes > cache_bytes]
    if not len(beyond):
        return math.inf
    last, first = sizes[sizes <= cache_bytes].index[-1], beyond.index[0]
    part = (cache_bytes - sizes[last]) / (sizes[first] - sizes[last])
    return float(last + part * (first - last))


def levels(panel: pd.DataFrame, look: Look) -> dict[str, float]:
    """Limits of the device in the unit of the metric, by name with value: of its memory for GB/s, of its arithmetic for
    TFLOP/s. The large copy of the session is one only where there is no copy control."""
    limits_by_name = {"theoretical": look.peak(panel)}
    if look.metric.name == "gbps" and COPY_CURVE not in set(panel["curve"]):
        limits_by_name["large copy"] = panel["ceiling_gbps"].dropna().median()
    if look.metric.name == "tflops":
        limits_by_name["large matmul"] = panel["ceiling_tflops"].dropna().median()
    return {
        f"{name} {f'{level:.0f}' if level >= 100 else four_digits(level)}": level
        for name, level in limits_by_name.items()
        if level and level > 0
    }


# -- curves


def _draw_level(axes: Axes, group: pd.DataFrame, curve: str, look: Look) -> None:
    """Draw a curve without the parameter that runs along x, as a dashed line across the panel."""
    colour = look.styles[curve].colour
    pooled = pool(group, "curve").iloc[0]
    axes.axhline(pooled["value"], color=colour, linestyle="--", linewidth=1.6)
    axes.axhspan(pooled["low"], pooled["high"], color=colour, alpha=0.12, linewidth=0)


def _draw_curve(axes: Axes, line: pd.DataFrame, curve: str, look: Look, file: str, place: int) -> None:
    """Draw a line with its band. It breaks where the curve has no value at an x of another curve.

    About MARKERS_PER_LINE of its points have a marker, those of neighbouring curves (`place` is that of the curve) at different
    sizes, and every point that no line reaches. Three times as many hollow points have one.
    """
    style, back = look.styles[curve], look.theme.background
    if line["value"].isna().all():  # suspect values only
        return
    order = 2 if curve == COPY_CURVE else 3
    axes.fill_between(line.index, line["low"], line["high"], color=style.colour, alpha=0.15, linewidth=0, zorder=order)
    axes.plot(line.index, line["value"], color=style.colour, linestyle=look.line(curve, file), zorder=order)
    present, hollow = line["value"].notna(), line["hollow"].eq(True)
    alone = present & ~present.shift(1, fill_value=False) & ~present.shift(-1, fill_value=False)
    for most, chosen, face, edge, width in (
        (MARKERS_PER_LINE, present & ~hollow, style.colour, back, 0.6),
        (3 * MARKERS_PER_LINE, present & hollow, back, style.colour, 1.5),
    ):
        every = max(1, int(present.sum()) // most)
        offset = round(0.382 * place * every) % every  # the golden section spreads the markers of any number of curves
        shown = line[chosen & ((pd.RangeIndex(len(line)) % every == offset) | alone)]
        if len(shown) and style.marker:
            axes.plot(
                shown.index, shown["value"], color=style.colour, linestyle="", markerfacecolor=face,
                markeredgecolor=edge, markeredgewidth=width, zorder=order + 0.5, **style.points,
            )  # fmt: skip


def _draw_suspects(axes: Axes, values: pd.DataFrame, look: Look, extent: Extent) -> None:
    """Draw a question mark at each claimed value. Values beyond the axis have it at the edge."""
    bottom, top = extent
    edges = (1.1 * bottom, top / 1.1) if bottom > 0 else (0.03 * top, 0.97 * top)
    for curve, group in values[values["suspect"] & values["x"].notna()].groupby("curve"):
        claimed = group.groupby("x")["claimed"].median().clip(*edges)
        colour = look.theme.readable(look.styles[str(curve)].colour)
        axes.plot(claimed.index, claimed, color=colour, marker=QUESTION_MARK, linestyle="", markersize=11, zorder=5)


def _draw_marks(axes: Axes, panel: pd.DataFrame, look: Look, xs: list[float], strip: float) -> None:
    """Draw a row of marks per curve, in its colour, in the strip between the values and the axis."""
    if not strip:
        return
    axes.plot([0, 1], [strip, strip], color=look.theme.quiet, linewidth=0.8, zorder=1, transform=axes.transAxes)
    rows = _marked_rows(panel)
    curves = natural(rows["curve"].unique())
    height = min(STRIP_ROW, strip / max(1, len(curves)))
    for place, curve in enumerate(curves):
        for kind, group in rows[rows["curve"] == curve].groupby("kind"):
            at = sorted(group["x"].unique())
            axes.plot(
                at, [strip - (place + 0.5) * height] * len(at), color=look.styles[curve].colour, zorder=4,
                transform=axes.get_xaxis_transform(), **row_mark(str(kind), height / STRIP_ROW),
            )  # fmt: skip


# -- names


def ends_of(panel: pd.DataFrame, look: Look) -> dict[str, float]:
    """The last value of each curve, if each can have its name at the end of its line in place of a legend: they are few, their
    names are short, and each reaches the end of the panel. Otherwise nothing."""
    values = panel[(panel["kind"] == VALUE) & panel["value"].notna()]
    at_end = pool(values[values["x"] == values["x"].max()], "curve")["value"]
    ends = {str(curve): float(value) for curve, value in at_end.items()}
    too_long = any(text_width(look.names[curve], LABEL_SIZE) > LABEL_WIDTH for curve in ends)
    everyone = set(panel.loc[panel["kind"] != ABSENT, "curve"])
    if len(look.files) > 1 or len(ends) > MOST_LABELS or too_long or everyone != ends.keys():
        return {}
    return ends


def draw_names(axes: Axes, ends: dict[str, float], look: Look, extent: Extent, height: float) -> None:
    """Write names right of a panel, at the last values in `ends`. A thin line leads to a name that had to move. The panel
    without its strip is `height` points high."""
    curves = sorted(ends, key=lambda curve: (ends[curve], curve))
    heights = [height_share(ends[curve], extent) * height for curve in curves]
    right = axes.get_xlim()[1]
    for curve, wish, place in zip(curves, heights, spread(heights, LABEL_HEIGHT), strict=True):
        colour = look.styles[curve].colour
        leader = {"arrowstyle": "-", "color": colour, "linewidth": 0.9, "shrinkA": 0, "shrinkB": 0, "relpos": (0, 0.5)}
        axes.annotate(
            look.names[curve], (right, ends[curve]), (14, place - wish), "data", "offset points", va="center",
            fontsize=LABEL_SIZE, color=look.theme.readable(colour), annotation_clip=False, arrowprops=leader,
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


def curve_entries(panels: Sequence[pd.DataFrame], look: Look) -> list[LegendEntry]:
    """Legend entries of the curves, the highest last value first, then of the files where there are several."""
    everything = pd.concat(list(panels))
    shown = everything[everything["kind"] != ABSENT].sort_values("x", kind="stable")
    last = shown.groupby("curve")["value"].last()  # of those that are not missing
    placed = shown[shown["value"].notna()].groupby("curve")["x"].max()
    several = len(look.files) > 1
    entries: list[LegendEntry] = []
    for curve in sorted(natural(last.index), key=lambda name: -last.fillna(-math.inf)[name]):
        style = look.styles[curve]
        level = curve in placed and math.isnan(placed[curve])
        line: Any = "--" if level else "-" if several else style.line
        handle = Line2D([], [], color=style.colour, linestyle=line, **({} if level else style.points))
        entries.append((look.names[curve], handle))
    for file in look.files if several else ():
        line = look.line(COPY_CURVE, file)
        entries.append((file, Line2D([], [], color=look.theme.ink, linestyle=line, linewidth=1.6)))
    return entries


def mark_entries(of_lines: Sequence[pd.DataFrame], of_bars: Sequence[pd.DataFrame], look: Look) -> list[LegendEntry]:
    """Legend entries of the marks. They are grey, because in the panels a mark has the colour of its provider. Bars have their
    statuses beside them: only hollow ones need more."""
    grey, back = look.theme.muted, look.theme.background
    entries: list[LegendEntry] = []
    if flags := set[str]().union(*map(hollow_flags, [*of_lines, *of_bars])):
        ring = Line2D([], [], color=grey, marker="o", linestyle="", markerfacecolor=back, markeredgewidth=1.5)
        entries.append((" or ".join(sorted(flags)), ring))
    if any(panel.loc[panel["kind"] == VALUE, "suspect"].any() for panel in of_lines):
        question = Line2D([], [], color=grey, marker=QUESTION_MARK, linestyle="", markersize=9)
        entries.append(("suspect: implausible time", question))
    for kind in MARKED:
        if statuses := {status for panel in of_lines for status in panel.loc[panel["kind"] == kind, "status"]}:
            entries.append((", ".join(sorted(statuses)), Line2D([], [], color=grey, **row_mark(kind))))
    return entries
