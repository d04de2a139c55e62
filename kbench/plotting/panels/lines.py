"""A panel of lines: values against sizes, with their bands, and marks for rows without a value."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes

from kbench.plotting.panels import backdrop, marks
from kbench.plotting.panels.look import Look
from kbench.plotting.panels.scale import limits, scale_x, scale_y
from kbench.plotting.selection.points import ABSENT, COPY_CURVE, MARKED, VALUE, pool
from kbench.plotting.style.formatting import natural

MARKERS_PER_LINE = 10

STRIP_ROW, HIGHEST_STRIP = 0.05, 0.3
"""Height of a row of marks below the values, and the most of all rows together, as shares of the panel."""

MARKS_PER_ROW = 40

SPAN_OF_TIMES, SPAN_OF_SPEEDS = 10, 20
"""An axis is logarithmic where the largest value is more than this many times the smallest."""

NEAR_LEVEL = 2
"""An axis reaches up to a limit of the memory that is below this many times its top."""


def draw(
    axes: Axes,
    panel: pd.DataFrame,
    look: Look,
    extent: tuple[float, float],
    strip: float,
    room: int,
    cache_edge: float | None,
) -> None:
    """Draw a panel between the limits `extent`, above a strip for marks. There is room for `room` ticks along x. `cache_edge`
    is that of `backdrop.cache_edges`."""
    values = panel[panel["kind"] == VALUE]
    xs = sorted(panel.loc[panel["kind"] != ABSENT, "x"].dropna().unique())
    scale_x(axes, xs, room)
    scale_y(axes, *extent, strip)
    axes.set_xlabel(look.x)
    axes.set_ylabel(look.metric.label)
    backdrop.draw(axes, panel, look, extent, cache_edge)
    for place, ((file, curve), group) in enumerate(values.groupby(["file", "curve"])):
        if group["x"].isna().all():
            _draw_level(axes, group, str(curve), look)
        else:
            _draw_curve(axes, group, str(curve), look, str(file), xs, place)
    _draw_suspects(axes, values, look, extent)
    _draw_marks(axes, panel, look, xs, strip)


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


def extent(panel: pd.DataFrame, look: Look, *, log: bool) -> tuple[float, float]:
    """The limits of y that suit the values of a panel. The lower one is 0 unless the axis is logarithmic."""
    shown = panel[panel["kind"] == VALUE]
    values, highs = shown["value"].dropna().tolist(), shown["high"].dropna().tolist()
    bottom, top = limits(values, highs, log=log)
    near = [1.04 * level for level in backdrop.levels(panel, look).values() if level < NEAR_LEVEL * top]
    return bottom, max([top, *near, 1.04 if look.metric.ratio else 0.0])


def strip(panel: pd.DataFrame) -> float:
    """The share of a panel's height that its marks need: a row for each curve that has any."""
    return min(HIGHEST_STRIP, STRIP_ROW * int(_marked_rows(panel)["curve"].nunique()))


def is_line(panel: pd.DataFrame) -> bool:
    """Whether values stand at more than one x."""
    return bool(panel.loc[panel["kind"] == VALUE, "x"].nunique() > 1)


def _draw_level(axes: Axes, group: pd.DataFrame, curve: str, look: Look) -> None:
    """Draw a curve without the parameter that runs along x, as a dashed line across the panel."""
    colour = look.styles[curve].colour
    pooled = pool(group, "curve").iloc[0]
    axes.axhline(pooled["value"], color=colour, linestyle="--", linewidth=1.6)
    axes.axhspan(pooled["low"], pooled["high"], color=colour, alpha=0.12, linewidth=0)


def _draw_curve(
    axes: Axes, group: pd.DataFrame, curve: str, look: Look, file: str, xs: list[float], place: int
) -> None:
    """Draw a line with its band. It breaks where the curve has no value at an x of another curve."""
    style, back = look.styles[curve], look.theme.background
    line = pool(group, "x").reindex(xs)
    if line["value"].isna().all():  # suspect values only
        return
    order = 2 if curve == COPY_CURVE else 3
    axes.fill_between(line.index, line["low"], line["high"], color=style.colour, alpha=0.15, linewidth=0, zorder=order)
    axes.plot(line.index, line["value"], color=style.colour, linestyle=look.line(curve, file), zorder=order)
    present, hollow = line["value"].notna(), line["hollow"].eq(True)
    solid = _thinned(present, present & ~hollow, MARKERS_PER_LINE, place)
    rings = _thinned(present, present & hollow, 3 * MARKERS_PER_LINE, place)
    for at, face, edge, width in ((solid, style.colour, back, 0.6), (rings, back, style.colour, 1.5)):
        if at and style.marker:
            points = line.iloc[at]
            axes.plot(
                points.index, points["value"], color=style.colour, linestyle="", markerfacecolor=face,
                markeredgecolor=edge, markeredgewidth=width, zorder=order + 0.5, **marks.curve_marker(style),
            )  # fmt: skip


def _thinned(present: pd.Series[bool], chosen: pd.Series[bool], most: int, place: int) -> list[int]:
    """The places of the chosen points that get a marker: about `most` on a whole line, and every point that no line reaches.

    `place` is the place of the curve: neighbouring curves have their markers at different points.
    """
    here = present.tolist()
    every = max(1, sum(here) // most)
    offset = round(0.382 * place * every) % every  # the golden section spreads the markers of any number of curves
    alone = {i for i in range(len(here)) if not any(here[max(0, i - 1) : i]) and not any(here[i + 1 : i + 2])}
    return [i for i, wanted in enumerate(chosen) if wanted and (i % every == offset or i in alone)]


def _draw_suspects(axes: Axes, values: pd.DataFrame, look: Look, extent: tuple[float, float]) -> None:
    """Draw a question mark at each claimed value. Values beyond the axis have it at the edge."""
    bottom, top = extent
    edges = (1.1 * bottom, top / 1.1) if bottom > 0 else (0.03 * top, 0.97 * top)
    for curve, group in values[values["suspect"] & values["x"].notna()].groupby("curve"):
        claimed = group.groupby("x")["claimed"].median().clip(*edges)
        colour = look.theme.readable(look.styles[str(curve)].colour)
        axes.plot(
            claimed.index, claimed, color=colour, marker=marks.QUESTION_MARK, linestyle="", markersize=11, zorder=5
        )


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
            here = pd.Series(xs).isin(group["x"])
            at = [xs[i] for i in _thinned(here, here, MARKS_PER_ROW, 0)]
            axes.plot(
                at, [strip - (place + 0.5) * height] * len(at), color=look.styles[curve].colour, zorder=4,
                transform=axes.get_xaxis_transform(), **marks.row_mark(str(kind), height / STRIP_ROW),
            )  # fmt: skip


def _marked_rows(panel: pd.DataFrame) -> pd.DataFrame:
    found: pd.DataFrame = panel[panel["kind"].isin(MARKED) & panel["x"].notna()]
    return found
