"""Pictures of results files: lines, bars and maps of winners, with the caption that says what is seen."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from kbench.analysis.files import ResultsFile
from kbench.analysis.metrics import Metric, default_metric, metric_by_name
from kbench.errors import UsageError
from kbench.plotting import bars, lines, maps
from kbench.plotting.names import natural, shorten, title_of, without_provider
from kbench.plotting.pages import MAX_BY, MAX_PANELS, Look, Page, Panel, split_into_pages
from kbench.plotting.points import (
    ABSENT,
    MARKED,
    VALUE,
    Point,
    Series,
    axes_of,
    companions,
    fixed_columns,
    models_along,
    place_along_x,
    points_of,
    series_of,
)
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
from kbench.results.row import COLUMNS
from kbench.results.vocabulary import Flag, Role, Status
from kbench.text.printable import printable
from kbench.text.suggest import unknown

PICTURE_KINDS = ("lines", "bars", "heatmap", "change")

MOST_CURVES = 200
"""More curves take minutes to draw, and no reader can tell them apart."""

BESIDE_WIDTH, ENTRY_HEIGHT = 170, 16
"""A legend stands below the panels if a name is wider than this, because beside them it would take their width, and if so many
entries are higher than the panels. In points."""


@dataclass(frozen=True)
class Choices:
    """What a user may choose about a picture.

    metric    what is drawn: a name of METRICS, for a change one that `kbench compare` has.
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


def pages_of(
    sources: Sequence[ResultsFile], choices: Choices, *, as_text: bool = False
) -> Iterator[tuple[Page[Point], Look]]:
    """The pages of lines or bars for these choices, each with its look. `as_text`: they have no bands.

    Raises UsageError for an unknown choice and for more than fits into a picture, ResultsError where there is no value to
    draw.
    """
    if choices.kind not in PICTURE_KINDS:
        raise UsageError(f"--kind: {unknown('kind', choices.kind, PICTURE_KINDS)}")
    of_bars, axes = choices.kind == "bars", axes_of(sources)
    metric = metric_by_name(choices.metric_of(sources))
    points, x = _placed(sources, metric, choices.x, parameters=not of_bars)
    shown = [point for point in points if point.kind != ABSENT]
    columns = fixed_columns(points, axes)
    paired = {} if of_bars else companions(points, axes, x)
    meaning = [*paired.values(), "" if of_bars else models_along(points, x)]
    text = caption(sources, points, metric, meaning, bands=not as_text)
    look = Look(metric, theme_by_name(choices.theme), sources, x, list(paired), [*columns, "model"], text)
    look = look.of(point.curve for point in shown)
    beside = [name for name in columns if (name != x or of_bars) and name not in paired]
    beside += ["file"] if "file" in choices.by else []
    for page in split_into_pages(shown, beside, choices.by, MAX_BY if of_bars or choices.by else MAX_PANELS):
        yield page, look


def pages_of_winners(
    sources: Sequence[ResultsFile], choices: Choices, *, as_text: bool = False
) -> Iterator[tuple[Page[maps.Cell], Look]]:
    """The pages of maps of winners for these choices, each with its look. `as_text`: they have no shades. Raises as `pages_of`
    does."""
    metric = metric_by_name("ms")
    points, x = _placed(sources, metric, choices.x, parameters=False)
    axes = axes_of(sources)
    paired = companions(points, axes, x)
    cells, y = maps.cells_of(sources, x, paired, choices.by)
    noise = [labelled(source, source.analysis.noise.sentence(), sources) for source in sources]
    signs = maps.SIGNS if as_text else f"{maps.SIGNS} · {maps.SHADES}"
    text = caption(sources, points, None, [*noise, signs, *paired.values(), models_along(points, x)])
    beside = [name for name in fixed_columns(points, axes) if name not in (x, y, *paired)]
    look = Look(metric, theme_by_name(choices.theme), sources, x, list(paired), beside, text, y)
    look = look.of(cell.curve for cell in cells)
    for page in split_into_pages(cells, ["file", *beside], choices.by, MAX_BY if choices.by else MAX_PANELS):
        yield page, look


def _placed(
    sources: Sequence[ResultsFile], metric: Metric, chosen: str | None, *, parameters: bool
) -> tuple[list[Point], str]:
    """The points of files, and the name of what runs along x."""
    points = points_of(sources, metric)
    x = place_along_x(points, axes_of(sources), chosen, parameters=parameters)
    if (count := len({point.curve for point in points})) > MOST_CURVES:
        message = f"{count:,} curves are too many for a picture, the limit is {MOST_CURVES}"
        raise UsageError(f"{message}; choose some with --where provider=NAME")
    return points, x


# -- a page of lines and bars


def draw_page(page: Page[Point], look: Look, *, bars_only: bool) -> tuple[Figure, list[lines.DrawnCurve]]:
    """A page of lines. A panel where nothing runs along x has bars, and all panels have them with `bars_only`."""
    are_lines = [not bars_only and lines.is_line(panel.points) for panel in page.panels]
    panels = [series_of(panel.points) for panel in page.panels]
    of_lines = [series for series, is_line in zip(panels, are_lines, strict=True) if is_line]
    of_bars = [series for series, is_line in zip(panels, are_lines, strict=True) if not is_line]
    look = look if of_lines else look.by_provider()
    columns, height, strip = grid(len(panels))[0], 0.0, 0.0
    if of_bars:
        bar_lists = [bars.bars_of(series, look) for series in of_bars]
        rows = bars.BarRows.of(bar_lists, columns)
        columns, height = rows.columns, rows.inches
        tops = [bars.top_of(series, drawn, look) for series, drawn in zip(of_bars, bar_lists, strict=True)]
        bar_panels = iter(zip(bar_lists, _shared([(0.0, top) for top in tops], look), strict=True))
    ends: list[lines.End] = []
    if of_lines:
        height = max(height, 4.1 if columns == 1 else 3.3)
        strip = max(map(lines.strip_of, of_lines))
        log = any(lines.wants_log(series, look) for series in of_lines)  # the same for all panels of a page
        edges = lines.cache_edges(of_lines, look)
        extents = [lines.extent_of(series, look, edge, log=log) for series, edge in zip(of_lines, edges, strict=True)]
        line_panels = iter(zip(_shared(extents, look), edges, strict=True))
        if len(panels) == 1:
            ends = lines.ends_of(panels[0], look, extents[0], (height - 0.75) * (1 - strip) * POINTS_PER_INCH)
    curves = lines.curve_entries(of_lines, look) if of_lines and not ends else []
    body = height * math.ceil(len(panels) / columns)
    has_room = len(curves) * ENTRY_HEIGHT <= body * POINTS_PER_INCH
    beside = (
        bool(curves) and not of_bars and has_room and max(text_width(name, 11) for name, _ in curves) <= BESIDE_WIDTH
    )
    marks = lines.mark_entries(_points(of_lines), _points(of_bars), look)
    _, provider = without_provider(series.curve for panel in of_bars for series in panel)
    note = f"\nconfigurations named only by parameters are those of {provider}" if provider else ""
    figure, grid_axes = make_page(
        len(panels),
        columns,
        body,
        title_of(page.whole(look.titled)),
        look.caption + note,
        [[] if beside else curves, marks],
        look.theme,
    )
    title_width = POINTS_PER_INCH * PAGE_WIDTHS[columns] / columns * (1 - bars.BESIDE if of_bars else 0.8)
    drawn_curves: list[lines.DrawnCurve] = []
    for axes, panel, series, is_line in zip(grid_axes, page.panels, panels, are_lines, strict=True):
        where, pad = panel.where, None
        if is_line:
            extent, edge = next(line_panels)
            drawn_curves += lines.draw(axes, series, look, extent, strip, panel_width(columns), edge)
            lines.draw_ends(axes, ends, look.theme)
        else:
            drawn, (_, top) = next(bar_panels)
            pad = bars.draw(axes, series, drawn, look, top, rows)
            where = {**where, **_single_x(panel, page, look)}
        axes.set_title(wrap(title_of(where), title_width, 12), loc="left", pad=pad)
    if beside:
        legend_beside(figure, curves)
    return figure, drawn_curves


def _points(panels: Iterable[Sequence[Series]]) -> list[Point]:
    return [point for panel in panels for series in panel for point in series.points]


def _single_x(panel: Panel[Point], page: Page[Point], look: Look) -> dict[str, str]:
    """The x of bars on a page with lines, whose axis does not show it."""
    sizes, others = ({point.x for point in points} - {None} for points in (panel.points, page.points))
    if look.x in panel.where or len(sizes) != 1 or len(others) == 1:
        return {}
    return {look.x: f"{sizes.pop():g}"}


def _shared(extents: list[tuple[float, float]], look: Look) -> list[tuple[float, float]]:
    """The limits of panels of one kind: the same for all, unless that would press one of them flat."""
    tops = [top for _, top in extents]
    logarithmic = any(bottom > 0 for bottom, _ in extents)
    if logarithmic or look.metric.lower_is_better or max(tops) > 4 * min(tops):
        return extents
    return [(0.0, max(tops))] * len(extents)


# -- the caption


def caption(
    sources: Sequence[ResultsFile],
    points: Sequence[Point],
    metric: Metric | None,
    meaning: Sequence[str],
    *,
    bands: bool = True,
) -> str:
    """The lines under a picture: the machine, the method, and the rows that the picture does not show.

    `metric` is None where the picture shows winners. `meaning` are lines of the picture's own. `bands` says whether the
    picture has bands.
    """
    text = [labelled(source, machine_line(source), sources) for source in sources]
    text += [method_line(sources, metric if bands else None), *meaning]
    rows = [point for point in points if point.row.role is Role.PROVIDER]
    lost: dict[str, list[Point]] = defaultdict(list)
    for point in rows:
        if point.kind not in (VALUE, *MARKED):
            lost[point.row.status.value].append(point)
    outcomes = []
    for status in sorted(lost):
        outcome = f"without {metric.name if metric else 'ms'}" if status == Status.OK.value else status
        outcomes.append(f"{len(lost[status])} {outcome} ({_list({point.curve for point in lost[status]})})")
    if outcomes:
        text.append(f"not drawn: {sum(map(len, lost.values()))} of {len(rows)} rows: {'; '.join(outcomes)}")
    text += [warning for source in sources for warning in source.warnings]
    return "\n".join(printable(line) for line in text if line)


def labelled(source: ResultsFile, line: str, sources: Sequence[ResultsFile]) -> str:
    """A line on a file, after the label of the file if there are several."""
    return f"{source.label}: {line}" if len(sources) > 1 else line


def machine_line(source: ResultsFile) -> str:
    """`NVIDIA H200 · driver 580.159.04 · torch 2.11.0 · triton 3.6.0 · 2026-11-20`, without the parts that are not known."""
    measured = [row for row in source.rows if row.status in (Status.OK, Status.CHECKED)]
    devices = natural({row.device for row in measured if row.device}) or [source.environment.device or ""]
    driver, versions = source.environment.driver, source.environment.packages
    dates = sorted({row.started_at[:10] for row in measured if row.started_at})
    parts = [
        ", ".join(devices),
        f"driver {driver}" if driver else "",
        *(f"{name} {versions[name]}" for name in ("torch", "triton") if versions.get(name)),
        " to ".join(dict.fromkeys([dates[0], dates[-1]])) if dates else "",
    ]
    return " · ".join(part for part in parts if part)


def method_line(sources: Sequence[ResultsFile], metric: Metric | None = None) -> str:
    """`timer do_bench · cache cold · median of 3 sessions`, and how many rows are noisy."""
    timed = [row for source in sources for row in source.rows if row.status is Status.OK]
    sessions = max(len({row.session for row in source.rows}) for source in sources)
    used = {name: sorted({getattr(row, name) for row in timed} - {""}) for name in ("timer", "cache")}
    parts = [f"{name} {'/'.join(words)}" for name, words in used.items() if words]
    parts += [f"median of {sessions} sessions"] if sessions > 1 else []
    parts += ["band: p20 to p80"] if metric and f"{metric.column}_p20" in COLUMNS else []
    providers = [row for row in timed if row.role is Role.PROVIDER]
    noisy = sum(Flag.NOISY in row.flags for row in providers)
    parts += [f"{noisy} of {len(providers)} rows noisy"] if noisy else []
    return " · ".join(parts)


def _list(curves: Iterable[str]) -> str:
    names = natural(curves)
    short = shorten(names)
    return ", ".join(short[name] for name in names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
