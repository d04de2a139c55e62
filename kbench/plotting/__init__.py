"""Pictures of results: lines, bars, maps of winners, changes between two files, and histories. And charts of text.

`points` makes points and series from the rows of results files, `pages` divides them into panels, and `lines`, `bars` and
`maps` draw these; `results` is their way from a file to a picture. `changes` draws a comparison, `history` a history.
`terminal` prints lines, bars and maps as text. All share the page of `sheet`, the look of `style` and the spelling of `names`.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from kbench.analysis.files import ResultsFile, load_sources
from kbench.comparison.compare import compare_results
from kbench.comparison.model import CompareOptions, Comparison
from kbench.errors import ResultsError, UsageError
from kbench.files import replace
from kbench.history.report import HistoryReport
from kbench.plotting.changes import draw_changes
from kbench.plotting.history import draw_history
from kbench.plotting.lines import DrawnCurve
from kbench.plotting.names import combination_of, file_name_part
from kbench.plotting.results import Choices, draw_results
from kbench.plotting.sheet import settle
from kbench.plotting.style import Theme, styled, theme_by_name
from kbench.text.suggest import unknown

__all__ = [
    "PICTURE_FORMATS",
    "Choices",
    "Picture",
    "plot",
    "plot_changes",
    "plot_history",
    "print_charts",
    "write_history_pictures",
    "write_pictures",
]

PICTURE_FORMATS: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}
"""Picture formats, and for each the metadata to leave out because it changes with the date or the version."""

LONGEST_STEM = 160
"""Most characters of a picture's name before the metric. File systems take 255 characters for a whole name."""

DEFAULT_CHOICES = Choices()


@dataclass(frozen=True)
class Picture:
    """A figure, the combination it shows as a part of a file name ("" or `float16-M64`), and its curves."""

    combination: str
    figure: Figure
    curves: Sequence[DrawnCurve] = ()


def write_pictures(
    files: Path | str | Sequence[Path | str],
    choices: Choices = DEFAULT_CHOICES,
    out_dir: Path | str | None = None,
    formats: Sequence[str] = ("png", "svg"),
    *,
    where: str = "",
) -> list[Path]:
    """Draw results into `<stem>_<metric>[_<combination>].<format>` and return the paths.

    `files` are paths or `LABEL=path`. Several files become one picture. `out_dir` is by default the folder of the first
    file. `where` chooses rows (see kbench/results/row_filter.py).
    Raises UsageError for wrong choices, ResultsError where there is nothing to draw or a picture cannot be written.
    """
    _check_formats(formats)
    sources = load_sources([files] if isinstance(files, (Path, str)) else files, where)
    stem = "-vs-".join(source.path.stem if len(sources) == 1 else file_name_part(source.label) for source in sources)
    metric = choices.metric_of(sources)
    changed = "change" if metric == "ms" else f"{metric}_change"
    subject = {"bars": f"{metric}_bars", "heatmap": "winners", "change": changed}.get(choices.kind, metric)
    folder = sources[0].path.parent if out_dir is None else Path(out_dir)
    begin = f"{stem[:LONGEST_STEM]}_{subject}"
    return [
        path for picture in plot(sources, choices) for path in _write(picture, folder, begin, formats, choices.theme)
    ]


def write_history_pictures(
    report: HistoryReport, out_dir: Path, formats: Sequence[str] = ("png", "svg"), theme: str = "light"
) -> list[Path]:
    """Draw a history into `history_<operator>[_<machine>].<format>` and return the paths. Raises as `write_pictures` does."""
    _check_formats(formats)
    pictures = plot_history(report, theme)
    paths = [path for picture in pictures for path in _write(picture, out_dir, "history", formats, theme)]
    if not paths:
        raise ResultsError(f"{report.path}: no reading has a time, so there is nothing to draw")
    return paths


def _check_formats(formats: Sequence[str]) -> None:
    if strange := [name for name in formats if name not in PICTURE_FORMATS]:
        raise UsageError(f"--format: {unknown('format', strange[0], list(PICTURE_FORMATS))}")


def _write(picture: Picture, folder: Path, begin: str, formats: Sequence[str], theme: str) -> Iterator[Path]:
    """Write a picture in each format. Its name begins with `begin`."""
    name = "_".join(filter(None, [begin, picture.combination, theme if theme != "light" else ""]))
    for suffix in formats:
        path, stream = folder / f"{name}.{suffix}", io.BytesIO()
        with styled(theme_by_name(theme)):
            picture.figure.savefig(stream, format=suffix, metadata=PICTURE_FORMATS[suffix])
        replace(path, stream.getvalue())
        yield path


def plot(sources: Sequence[ResultsFile], choices: Choices) -> Iterator[Picture]:
    """The pictures of files that `load_sources` read, one after the other. Raises UsageError and ResultsError."""
    if choices.kind == "change":
        named = [f"{source.label.replace('=', '-')}={source.path}" for source in sources]
        options = CompareOptions(sources[0].where, metric=choices.metric_of(sources), margin=choices.margin)
        yield from plot_changes(compare_results(*named, options=options), choices)
        return
    drawn = draw_results(sources, choices)
    pictures = (Picture(combination_of(page.fixed), figure, curves) for page, figure, curves in drawn)
    yield from _in_style(theme_by_name(choices.theme), pictures)


def print_charts(files: Sequence[Path | str], choices: Choices = DEFAULT_CHOICES, where: str = "") -> None:
    """Print results as text, a chart per panel. `files`, `where` and what it raises are those of `write_pictures`."""
    from kbench.plotting import terminal  # plotext is slow to import, and most pictures are files

    terminal.print_charts(load_sources(files, where), choices)


def plot_changes(comparison: Comparison, choices: Choices) -> Iterator[Picture]:
    """The pictures of a comparison. Raises ResultsError where no row has a change."""
    theme = theme_by_name(choices.theme)
    drawn = draw_changes(comparison, choices.x, choices.by, theme)
    yield from _in_style(theme, (Picture(combination_of(page.fixed), figure) for page, figure in drawn))


def plot_history(report: HistoryReport, theme: str) -> Iterator[Picture]:
    """The pictures of a history, one for each machine and operator with a time. Raises UsageError for an unknown theme."""
    yield from _in_style(theme_by_name(theme), _history_pictures(report, theme_by_name(theme)))


def _history_pictures(report: HistoryReport, theme: Theme) -> Iterator[Picture]:
    machines = {series.key.machine for series in report.series}
    names: Counter[str] = Counter()
    for machine, operator, figure in draw_history(report, theme):
        name = file_name_part("-".join([operator, *([machine] if len(machines) > 1 else [])]))[:LONGEST_STEM]
        names[name] += 1
        yield Picture(name if names[name] == 1 else f"{name}-{names[name]}", figure)


def _in_style(theme: Theme, pictures: Iterator[Picture]) -> Iterator[Picture]:
    """The same pictures, each made and laid out in the style of a theme. The caller's style is not touched in between."""
    while True:
        with styled(theme):
            picture = next(pictures, None)
            if picture is None:
                return
            settle(picture.figure)
        yield picture
