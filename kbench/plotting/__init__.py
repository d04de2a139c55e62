"""Pictures of results: lines, bars, maps of winners, changes between two files, and histories. And charts of text.

Here is the way from results files to pictures: `pages` makes points from their rows and divides them into panels, which `lines`
and `maps` draw. `maps` draws a dispatch, too, `changes` a comparison and `history` a history. `terminal` prints lines, bars and
maps as text. All share the page of `sheet`, the look of `style` and the spelling of `names`.
"""

from __future__ import annotations

import io
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from kbench.analysis.files import ResultsFile, Source, load_sources
from kbench.analysis.metrics import Metric, default_metric, metric_by_name
from kbench.errors import ResultsError, UsageError
from kbench.files import replace as replace_file
from kbench.plotting.lines import draw_bars, draw_lines
from kbench.plotting.maps import SHADES, SIGNS, Cell, cells_of, draw_map
from kbench.plotting.names import combination_of, file_name_part, natural, shorten
from kbench.plotting.pages import (
    MAX_BY,
    MAX_PANELS,
    Look,
    Page,
    Picture,
    Point,
    axes_of,
    combinations,
    companions,
    fixed_columns,
    groups,
    place_along_x,
    points_of,
    series_of,
    split_into_pages,
)
from kbench.plotting.style import LIGHT, styled, theme_by_name
from kbench.results.cells import MARGIN
from kbench.results.row import COLUMNS
from kbench.results.vocabulary import Flag, Status
from kbench.text.printable import printable
from kbench.text.suggest import unknown
from kbench.text.words import list_words, plural

if TYPE_CHECKING:  # scipy, which these need, is slow to import
    from kbench.comparison.model import Comparison
    from kbench.history.report import HistoryReport

__all__ = ["Choices", "Picture", "plot", "plot_changes", "plot_history", "write_history_pictures", "write_pictures"]

PICTURE_FORMATS: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}
"""Picture formats, and for each the metadata to leave out because it changes with the date or the version."""

PICTURE_KINDS = ("lines", "bars", "heatmap", "change")

LONGEST_NAME = 160
"""Characters of a part of a picture's name. File systems take 255 characters for a whole name."""

DRAW_PAGE: dict[str, Callable[[Page[Any], Look], Figure]] = {
    "lines": draw_lines,
    "bars": draw_bars,
    "heatmap": draw_map,
}


@dataclass(frozen=True)
class Choices:
    """What a user may choose about a picture.

    metric  a name of METRICS; "" is ms for a change, otherwise the one of `default_metric`
    kind    lines (bars where nothing runs along x), bars (a panel per case), heatmap (the winner of each case) or change
            (of two files, the old one first)
    x       the axis or swept parameter that runs along x; default: the axis with the most values
    by      columns whose values become panels; default: the columns that vary, while there is room
    theme   light or dark
    margin  the smallest change of interest, as a share
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


DEFAULT_CHOICES = Choices()


def write_pictures(
    files: Sequence[Source],
    choices: Choices = DEFAULT_CHOICES,
    out_dir: Path | str | None = None,
    formats: Sequence[str] = ("png", "svg"),
    *,
    where: str = "",
) -> list[Path]:
    """Draw results, several files in one picture, into `<stem>_<metric>[_<combination>].<format>`. Return the paths.

    `out_dir` is by default the folder of the first file. `where` chooses rows. Raises UsageError for wrong choices, and
    ResultsError where there is nothing to draw or a picture cannot be written.
    """
    sources = load_sources(files, where)
    pictures = plot(sources, choices)
    stem = "-vs-".join(source.path.stem if len(sources) == 1 else file_name_part(source.label) for source in sources)
    metric = choices.metric_of(sources)
    changed = "change" if metric == "ms" else f"{metric}_change"
    subject = {"bars": f"{metric}_bars", "heatmap": "winners", "change": changed}.get(choices.kind, metric)
    folder = sources[0].path.parent if out_dir is None else Path(out_dir)
    return _write(pictures, folder, f"{stem[:LONGEST_NAME]}_{subject}", formats, choices.theme)


def write_history_pictures(report: HistoryReport, out_dir: Path, formats: Sequence[str], theme: str) -> list[Path]:
    """Draw a history into `history_<operator>[_<machine>].<format>` and return the paths. Raises as `write_pictures` does."""
    pictures = plot_history(report, theme)
    if not pictures:
        raise ResultsError(f"{report.path}: no reading has a time, so there is nothing to draw")
    return _write(pictures, out_dir, "history", formats, theme)


def _write(pictures: Sequence[Picture], folder: Path, begin: str, formats: Sequence[str], theme: str) -> list[Path]:
    """Write pictures in each format. Their names begin with `begin`, and no two have the same."""
    if not formats:
        raise UsageError(f'--format "": name at least one of {", ".join(PICTURE_FORMATS)}')
    if strange := [name for name in formats if name not in PICTURE_FORMATS]:
        raise UsageError(f"--format: {unknown('format', strange[0], list(PICTURE_FORMATS))}")
    if folder.suffix[1:] in PICTURE_FORMATS:
        raise UsageError(f"--out {folder}: kbench names the pictures; give their folder, and their type with --format")
    paths: list[Path] = []
    names: Counter[str] = Counter()
    for picture in pictures:
        name = "_".join(filter(None, [begin, picture.combination[:LONGEST_NAME]]))
        names[name] += 1
        name += f"-{names[name]}" if names[name] > 1 else ""
        name += "" if theme == LIGHT.name else f"_{theme}"
        for suffix in formats:
            stream = io.BytesIO()
            with styled(theme):
                picture.figure.savefig(stream, format=suffix, metadata=PICTURE_FORMATS[suffix])
            paths.append(folder / f"{name}.{suffix}")
            replace_file(paths[-1], stream.getvalue())
    return paths


def plot(sources: Sequence[ResultsFile], choices: Choices) -> list[Picture]:
    """The pictures of files that `load_sources` read. Raises UsageError and ResultsError."""
    if choices.kind == "change":
        from kbench.comparison.compare import compare_results
        from kbench.comparison.model import CompareOptions

        options = CompareOptions(metric=choices.metric_of(sources), margin=choices.margin)
        return plot_changes(compare_results(*sources, options=options), choices)
    pictures = []
    with styled(choices.theme):
        for page, look in pages_of(sources, choices):
            figure = DRAW_PAGE[look.kind](page, look)
            curves = [series_of(panel, look) for panel in page.panels] if look.kind == "lines" else ()
            pictures.append(Picture(combination_of(page.fixed), figure, curves))
    return pictures


def plot_changes(comparison: Comparison, choices: Choices = DEFAULT_CHOICES) -> list[Picture]:
    """The pictures of a comparison. Raises ResultsError where no row has a change."""
    from kbench.plotting.changes import draw_changes

    with styled(choices.theme) as theme:
        return list(draw_changes(comparison, choices.x, choices.by, theme))


def plot_history(report: HistoryReport, theme: str = LIGHT.name) -> list[Picture]:
    """The pictures of a history, one for each machine and operator with a time. Raises UsageError for an unknown theme."""
    from kbench.plotting.history import draw_history

    with styled(theme) as colours:
        return list(draw_history(report, colours))


def pages_of(
    sources: Sequence[ResultsFile], choices: Choices, *, as_text: bool = False
) -> Iterator[tuple[Page[Any], Look]]:
    """The pages of results for these choices, each with its look. `as_text`: they have no bands and no shades. Raises
    UsageError for an unknown choice and for more than fits into a picture, ResultsError where there is no value to draw."""
    if choices.kind not in PICTURE_KINDS:
        raise UsageError(f"--kind: {unknown('kind', choices.kind, PICTURE_KINDS)}")
    # for a map of winners, too: a misspelt one is a mistake
    chosen = metric_by_name(choices.metric_of(sources))
    is_map = choices.kind == "heatmap"
    metric = metric_by_name("ms") if is_map else chosen
    axes, points = axes_of(sources), points_of(sources, metric)
    x = place_along_x(points, axes, choices.x, parameters=choices.kind == "lines")
    paired = {} if choices.kind == "bars" else companions(points, axes, x)
    # the ticks of a map show the axes that go with x
    meaning = [*paired.values()] if as_text or not is_map else []
    if is_map:
        noise = [labelled(source, source.analysis.noise.sentence(), sources) for source in sources]
        meaning = [*noise, SIGNS if as_text else f"{SIGNS} · {SHADES}", *meaning]
        ranked = {key.case for source in sources for key in source.analysis.cases}
        if lost := {point.row.case for point in points if point.row.of_provider} - ranked:
            meaning.append(f"not shown: {plural(len(lost), 'case')} in which no provider has a time that counts")
    look = Look(
        kind=choices.kind,
        metric=metric,
        theme=theme_by_name(choices.theme),
        sources=sources,
        x=x,
        paired=list(paired),
        titled=fixed_columns(points, axes),
        caption=caption(sources, points, metric, meaning, bands=not (as_text or is_map)),
        curves=frozenset(point.curve for point in points if point.drawn),
    )
    yield from _pages_of_winners(look, choices) if is_map else _pages_of_values(points, look, choices)


def _pages_of_winners(look: Look, choices: Choices) -> Iterator[tuple[Page[Cell], Look]]:
    cells, y = cells_of(look.sources, look.x, look.paired, choices.by)
    beside = [name for name in look.titled if name not in (look.x, y, *look.paired)]
    look = replace(look, titled=beside, curves=frozenset(cell.curve for cell in cells), y=y)
    for page in split_into_pages(cells, ["file", *beside], choices.by, MAX_BY if choices.by else MAX_PANELS):
        yield page, look


def _pages_of_values(points: Sequence[Point], look: Look, choices: Choices) -> Iterator[tuple[Page[Point], Look]]:
    """Pages of lines, then pages of bars: of the panels in which nothing runs along x, or of all with `--kind bars`."""
    only_bars = choices.kind == "bars"
    apart = [name for name in look.titled if name not in look.paired] + ["file"] * ("file" in choices.by)
    beside = [name for name in apart if name != look.x]
    of_lines: list[Point] = []
    of_bars: list[Point] = []
    for _, panel in groups([point for point in points if point.drawn], beside):
        xs = {point.x for point in panel if point.has_value} - {None}
        (of_bars if only_bars or len(xs) < 2 else of_lines).extend(panel)
    # the title of a panel of bars says at which x it is, unless the panel then falls into many, of which one has values
    by_x = only_bars or len(combinations(of_bars, apart)) == len(combinations(of_bars, beside))
    for kind, members, names in (("lines", of_lines, beside), ("bars", of_bars, apart if by_x else beside)):
        room = MAX_BY if kind == "bars" or choices.by else MAX_PANELS
        for page in split_into_pages(members, names, choices.by, room) if members else ():
            further = {"kind": kind} if kind == "bars" and of_lines else {}
            yield replace(page, fixed=further | page.fixed), replace(look, kind=kind)


def caption(
    sources: Sequence[ResultsFile],
    points: Sequence[Point],
    metric: Metric,
    meaning: Sequence[str],
    *,
    bands: bool,
) -> str:
    """The lines under a picture: the machine, the method, `meaning`, and the rows that the picture does not show."""
    text = [labelled(source, machine_line(source), sources) for source in sources]
    text += [method_line(sources, metric if bands else None), *meaning]
    rows = [point for point in points if point.row.of_provider]
    lost: dict[str, list[str]] = defaultdict(list)
    for point in rows:
        if not point.drawn:
            lost[point.row.status.value].append(point.curve)
    outcomes = []
    for status, curves in sorted(lost.items()):
        outcome = f"without {metric.name}" if status == Status.OK.value else status
        names = list_words([*shorten(natural({*curves})).values()], 8)
        outcomes.append(f"{len(curves)} {outcome} ({names})")
    if outcomes:
        text.append(f"not drawn: {sum(map(len, lost.values()))} of {len(rows)} rows: {'; '.join(outcomes)}")
    text += [warning for source in sources for warning in source.warnings]
    return "\n".join(printable(line) for line in text if line)


def labelled(source: ResultsFile, line: str, sources: Sequence[ResultsFile]) -> str:
    """A line on a file, after the label of the file if there are several."""
    return f"{source.label}: {line}" if len(sources) > 1 else line


def machine_line(source: ResultsFile) -> str:
    """`NVIDIA H200 · driver 580.159.04 · torch 2.11.0 · triton 3.6.0 · 2026-11-20`, without the parts that are not known."""
    measured = [row for row in source.rows if row.status.right]
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
    if metric and f"{metric.column}_p20" in COLUMNS:
        parts.append("band: p20 to p80")
    elif metric and sessions > 1:
        parts.append("band: all sessions")
    providers = [row for row in timed if row.of_provider]
    noisy = sum(Flag.NOISY in row.flags for row in providers)
    parts += [f"{noisy} of {len(providers)} rows noisy"] if noisy else []
    return " · ".join(parts)
