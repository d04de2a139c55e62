"""Pictures of results files: lines, bars and maps of winners."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import Figure

from kbench.analysis.files import OWN, ResultsFile
from kbench.analysis.metrics import default_metric, metric_by_name
from kbench.errors import UsageError
from kbench.plotting import bars, heatmap, lines
from kbench.plotting.along import along, companions, models_along
from kbench.plotting.caption import caption, labelled
from kbench.plotting.look import Look
from kbench.plotting.names import title_of, without_provider
from kbench.plotting.pages import MAX_BY, MAX_PANELS, Page, Panel, split_into_pages
from kbench.plotting.points import fixed_columns, points
from kbench.plotting.sheet import (
    PAGE_WIDTHS,
    POINTS_PER_INCH,
    grid,
    legend_beside,
    make_page,
    panel_width,
    text_width,
    wrap,
)
from kbench.plotting.style import theme_by_name
from kbench.text.suggest import unknown

PICTURE_KINDS = ("lines", "bars", "heatmap", "change")

MOST_CURVES = 200
"""More curves take minutes to draw, and no reader can tell them apart."""

FLATTENED = 4
"""Panels share a scale where the highest top is at most this many times the lowest."""

BESIDE_WIDTH = 170
"""A legend with a wider name stands below the panels, because beside them it would take their width. In points."""

LINES_INCHES, LINES_IN_COLUMNS_INCHES, AROUND_LINES_INCHES = 4.1, 3.3, 0.75
"""The height of a panel of lines with its title and axis, and what these two take of it."""

CELL_INCHES, AROUND_CELLS_INCHES, LEAST_CELLS_INCHES, PAIRED_AXIS_INCHES = 0.46, 0.85, 1.25, 0.2
"""A row of cells of a map of winners, its title and axis, its least height, and the line of an axis that goes with x."""

MANY_SIZES = 16
"""A map of winners with more columns has the largest page width."""


@dataclass(frozen=True)
class Choices:
    """What a user may choose about a picture.

    metric    what is drawn: gbps, ms, speedup, copy_fraction, tflops, sol or ulp; for a change any metric of `kbench compare`.
              "" is ms for a change, otherwise tflops, gbps or ms: see `default_metric`
    kind      lines (bars where nothing runs along x), bars (a panel per case), heatmap (the winner of each case) or
              change (of two files, the old one first)
    x         the axis or swept parameter that runs along x; default: the axis with the most values
    by        columns whose values become panels; default: the columns that vary, while there is room
    theme     light or dark
    margin    the smallest change of interest, as a share
    """

    metric: str = ""
    kind: str = "lines"
    x: str | None = None
    by: Sequence[str] = ()
    theme: str = "light"
    margin: float = 0.02

    def metric_of(self, sources: Sequence[ResultsFile]) -> str:
        """The name of the metric, or the default of the kind for these files."""
        if self.metric or self.kind == "change":
            return self.metric or "ms"
        return default_metric(source.rows for source in sources)


Drawn = tuple[Page, Figure, list[lines.DrawnCurve]]
"""A page, its figure, and its curves."""


def draw_results(sources: Sequence[ResultsFile], choices: Choices) -> Iterator[Drawn]:
    """The pictures of files for these choices, in the style of matplotlib that is set. Raises as `pages_of` does."""
    for page, look, text in pages_of(sources, choices):
        if choices.kind == "heatmap":
            yield page, _draw_heatmaps(page, look, text), []
        else:
            yield page, *_draw_page(page, look, text, bars_only=choices.kind == "bars")


def pages_of(
    sources: Sequence[ResultsFile], choices: Choices, *, as_text: bool = False
) -> Iterator[tuple[Page, Look, str]]:
    """The pages of files for these choices, each with its look and its caption. `as_text`: they have no bands and no shades.

    Raises UsageError for an unknown choice and for more than fits into a picture, ResultsError where there is no value to
    draw.
    """
    kind = choices.kind
    if kind not in PICTURE_KINDS:
        raise UsageError(f"--kind: {unknown('kind', kind, PICTURE_KINDS)}")
    metric = metric_by_name("ms" if kind == "heatmap" else choices.metric_of(sources))
    axes = list(dict.fromkeys(axis for source in sources for axis in source.axes))
    # see `load_sources`
    chosen_axis = f"axis_{choices.x}" if choices.x in OWN and f"axis_{choices.x}" in axes else choices.x
    drawn, x = along(points(sources, metric), axes, chosen_axis, parameters=kind == "lines")
    if (count := drawn["curve"].nunique()) > MOST_CURVES:
        message = f"{count:,} curves are too many for a picture, the limit is {MOST_CURVES}"
        raise UsageError(f"{message}; choose some with --where provider=NAME")
    columns = fixed_columns(drawn, sources)
    paired = companions(drawn, axes, x) if kind != "bars" else {}
    meaning = [*paired.values(), models_along(drawn, x) if kind != "bars" else ""]
    titled = list(dict.fromkeys([*columns, "model"]))  # the caption names the device
    look = Look(metric, theme_by_name(choices.theme), sources, x, list(paired), titled)
    if kind == "heatmap":
        meaning = [heatmap.SIGNS if as_text else f"{heatmap.SIGNS} · {heatmap.SHADES}", *meaning]
        yield from _pages_of_winners(drawn, look, choices, axes, columns, meaning)
        return
    look = look.of(drawn)
    beside = [name for name in columns if (name != x or kind == "bars") and name not in paired]
    beside += ["file"] if "file" in choices.by else []
    text = caption(sources, drawn, metric, meaning, bands=not as_text)
    for page in split_into_pages(drawn, beside, choices.by, MAX_BY if kind == "bars" else MAX_PANELS):
        yield page, look, text


def _pages_of_winners(
    drawn: pd.DataFrame,
    look: Look,
    choices: Choices,
    axes: Sequence[str],
    columns: Sequence[str],
    meaning: Sequence[str],
) -> Iterator[tuple[Page, Look, str]]:
    sources = look.sources
    cells, y = heatmap.winners_of(sources, axes, look.x, look.paired, choices.by)
    apart = (look.x, y, *look.paired)
    titled = [name for name in look.titled if name not in apart]
    look = Look(look.metric, look.theme, sources, look.x, look.paired, titled, y).of(cells)
    noise = [labelled(source, source.analysis.noise.sentence(), sources) for source in sources]
    text = caption(sources, drawn, None, [*noise, *meaning])
    for page in split_into_pages(cells, [name for name in ["file", *columns] if name not in apart], choices.by):
        yield page, look, text


def _draw_page(page: Page, look: Look, text: str, *, bars_only: bool) -> tuple[Figure, list[lines.DrawnCurve]]:
    """A page of lines. A panel where nothing runs along x has bars, and all panels have them with `bars_only`."""
    of_lines = [panel.points for panel in page.panels if not bars_only and lines.is_line(panel.points)]
    of_bars = [panel.points for panel in page.panels if bars_only or not lines.is_line(panel.points)]
    look = look if of_lines else look.by_provider()
    rows = bars.BarRows.of(of_bars, look, grid(len(page.panels))[0])
    columns = rows.columns
    height = rows.height(of_bars, look) if of_bars else 0.0
    height = max(height, (LINES_INCHES if columns == 1 else LINES_IN_COLUMNS_INCHES) if of_lines else 0.0)
    strip = max(map(lines.strip_of, of_lines), default=0.0)
    log = any(lines.wants_log(points, look) for points in of_lines)  # the same for all panels of a page
    edges = lines.cache_edges(of_lines, look)
    extents = [lines.extent_of(points, look, edge, log=log) for points, edge in zip(of_lines, edges, strict=True)]
    frames = iter(zip(_shared(extents, look), edges, strict=True))
    tops = iter(_shared([bars.extent_of(points, look) for points in of_bars], look))

    ends = lines.ends_of(of_lines[0], look) if of_lines and len(page.panels) == 1 else {}
    curves = lines.curve_entries(of_lines, look) if of_lines and not ends else []
    beside = bool(curves) and max(text_width(name, 11) for name, _ in curves) <= BESIDE_WIDTH
    _, provider = without_provider(curve for points in of_bars for curve in points["curve"])
    text += f"\nconfigurations named only by parameters are those of {provider}" if provider else ""
    figure, grid_axes = make_page(
        len(page.panels),
        columns,
        height * math.ceil(len(page.panels) / columns),
        title_of(page.whole(look.titled)),
        text,
        [[] if beside else curves, lines.mark_entries(of_lines, of_bars, look)],
        look.theme,
    )
    title_width = POINTS_PER_INCH * PAGE_WIDTHS[columns] / columns * (1 - bars.BESIDE if of_bars else 0.8)
    drawn_curves: list[lines.DrawnCurve] = []
    for axes, panel in zip(grid_axes, page.panels, strict=True):
        bar, pad = bars_only or not lines.is_line(panel.points), None
        if bar:
            _, top = next(tops)
            pad = bars.draw(axes, panel.points, look, top, rows)
        else:
            extent, edge = next(frames)
            drawn_curves += lines.draw(axes, panel.points, look, extent, strip, panel_width(columns), edge)
            points_high = (height - AROUND_LINES_INCHES) * (1 - strip) * POINTS_PER_INCH
            lines.draw_names(axes, ends, look, extent, points_high)
        axes.set_title(wrap(title_of(_where(panel, page, look, bar)), title_width, 12), loc="left", pad=pad)
    if beside:
        legend_beside(figure, curves)
    return figure, drawn_curves


def _draw_heatmaps(page: Page, look: Look, text: str) -> Figure:
    """A page of maps of winners. The panels stand below each other where names would not fit into the cells otherwise."""
    panels = [panel.points for panel in page.panels]
    columns, rows = grid(len(panels))
    if not all(heatmap.has_room(panel, look, panel_width(columns), heatmap.TEXT_SIZES[0]) for panel in panels):
        columns, rows = 1, len(panels)
    many = columns == 1 and max(panel["x"].nunique() for panel in panels) > MANY_SIZES
    wide = max(PAGE_WIDTHS) if many else columns
    cells = [max(panel["y"].nunique() for panel in panels[i * columns : (i + 1) * columns]) for i in range(rows)]
    body = sum(max(LEAST_CELLS_INCHES, CELL_INCHES * count + AROUND_CELLS_INCHES) for count in cells)
    body += PAIRED_AXIS_INCHES * len(look.paired) * rows
    title = f"fastest: {title_of(page.whole(look.titled))}"
    legend = heatmap.legend(page.points, look)
    figure, grid_axes = make_page(len(panels), columns, body, title, text, [legend], look.theme, wide, cells)
    for axes, panel in zip(grid_axes, page.panels, strict=True):
        heatmap.draw(axes, panel.points, look, panel_width(columns, wide))
        axes.set_title(title_of(panel.where), loc="left")
    return figure


def _where(panel: Panel, page: Page, look: Look, bar: bool) -> dict[str, object]:
    """What the title of a panel says. Bars on a page with lines are at one x, which their axis does not show."""
    sizes = panel.points["x"].dropna().unique()
    if bar and look.x not in panel.where and len(sizes) == 1 < page.points["x"].nunique():
        return {**panel.where, look.x: f"{sizes[0]:g}"}
    return panel.where


def _shared(extents: list[tuple[float, float]], look: Look) -> list[tuple[float, float]]:
    """The limits of panels of one kind: the same for all, unless that would press one of them flat."""
    tops = [top for _, top in extents]
    if any(bottom > 0 for bottom, _ in extents):  # logarithmic
        return extents
    if extents and not look.metric.lower_is_better and max(tops) <= FLATTENED * min(tops):
        return [(0.0, max(tops))] * len(extents)
    return extents
