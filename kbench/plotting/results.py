"""From results files to pages: lines, bars and maps of winners, with the caption that says what is seen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kbench.analysis.files import ResultsFile
from kbench.analysis.metrics import Metric, default_metric, metric_by_name
from kbench.errors import UsageError
from kbench.plotting.lines import is_line
from kbench.plotting.maps import SHADES, SIGNS, Cell, cells_of
from kbench.plotting.names import natural, shorten
from kbench.plotting.pages import MAX_BY, MAX_PANELS, Look, Page, combinations, groups, split_into_pages
from kbench.plotting.points import (
    ABSENT,
    MARKED,
    VALUE,
    Point,
    axes_of,
    companions,
    fixed_columns,
    place_along_x,
    points_of,
)
from kbench.plotting.style import theme_by_name
from kbench.results.cells import MARGIN
from kbench.results.row import COLUMNS
from kbench.results.vocabulary import Flag, Role, Status
from kbench.text.printable import printable
from kbench.text.suggest import unknown

PICTURE_KINDS = ("lines", "bars", "heatmap", "change")

MOST_CURVES = 200
"""More curves take minutes to draw, and no reader can tell them apart."""


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
    margin: float = MARGIN

    def metric_of(self, sources: Sequence[ResultsFile]) -> str:
        """The name of the metric, or the default of the kind for these files."""
        if self.metric or self.kind == "change":
            return self.metric or "ms"
        return default_metric(source.rows for source in sources)


def pages_of(
    sources: Sequence[ResultsFile], choices: Choices, *, as_text: bool = False
) -> Iterator[tuple[Page[Any], Look]]:
    """The pages of results for these choices, each with its look. `as_text`: they have no bands and no shades.

    Raises UsageError for an unknown choice and for more than fits into a picture, ResultsError where there is no value to
    draw.
    """
    if choices.kind not in PICTURE_KINDS:
        raise UsageError(f"--kind: {unknown('kind', choices.kind, PICTURE_KINDS)}")
    metric_by_name(choices.metric_of(sources))  # a map of winners has none, but a misspelt one is a mistake there, too
    of_kind = _pages_of_winners if choices.kind == "heatmap" else _pages_of_values
    return of_kind(sources, choices, as_text=as_text)


def _pages_of_values(
    sources: Sequence[ResultsFile], choices: Choices, *, as_text: bool
) -> Iterator[tuple[Page[Point], Look]]:
    """Pages of lines, then pages of bars: of the panels in which nothing runs along x, or of all with `--kind bars`."""
    only_bars, axes = choices.kind == "bars", axes_of(sources)
    metric = metric_by_name(choices.metric_of(sources))
    points, x = _placed(sources, metric, choices.x, parameters=not only_bars)
    shown = [point for point in points if point.kind != ABSENT]
    columns = fixed_columns(points, axes)
    paired = {} if only_bars else companions(points, axes, x)
    apart = [name for name in columns if name not in paired] + ["file"] * ("file" in choices.by)
    beside = [name for name in apart if name != x]
    panels = [panel for _, panel in groups(shown, beside)]
    of_lines = [point for panel in panels if not only_bars and is_line(panel) for point in panel]
    of_bars = [point for panel in panels if only_bars or not is_line(panel) for point in panel]
    drawn_pairs = paired and (companions(of_lines, [x, *paired], x) or paired)
    text = caption(sources, points, metric, [*drawn_pairs.values()], bands=not as_text)
    # the title of a panel of bars says at which x it is, unless the panel then falls into many, of which one has values
    by_x = only_bars or len(combinations(of_bars, apart)) == len(combinations(of_bars, beside))
    for kind, members, names in (("lines", of_lines, beside), ("bars", of_bars, apart if by_x else beside)):
        curves = frozenset(point.curve for point in shown)
        look = Look(kind, metric, theme_by_name(choices.theme), sources, x, list(paired), columns, text, curves)
        room = MAX_BY if kind == "bars" or choices.by else MAX_PANELS
        for page in split_into_pages(members, names, choices.by, room) if members else ():
            yield replace(page, fixed={"kind": kind, **page.fixed}) if kind == "bars" and of_lines else page, look


def _pages_of_winners(
    sources: Sequence[ResultsFile], choices: Choices, *, as_text: bool
) -> Iterator[tuple[Page[Cell], Look]]:
    """Pages of maps of winners."""
    metric = metric_by_name("ms")
    points, x = _placed(sources, metric, choices.x, parameters=False)
    axes = axes_of(sources)
    paired = companions(points, axes, x)
    cells, y = cells_of(sources, x, paired, choices.by)
    noise = [labelled(source, source.analysis.noise.sentence(), sources) for source in sources]
    signs = SIGNS if as_text else f"{SIGNS} · {SHADES}"
    meaning = [
        *noise,
        signs,
        *(paired.values() if as_text else ()),
    ]  # the ticks of a picture show the axes that go with x
    text = caption(sources, points, None, meaning)
    beside = [name for name in fixed_columns(points, axes) if name not in (x, y, *paired)]
    curves = frozenset(cell.curve for cell in cells)
    theme = theme_by_name(choices.theme)
    look = Look(choices.kind, metric, theme, sources, x, list(paired), beside, text, curves, y)
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
