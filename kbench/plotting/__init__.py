"""Pictures of results: lines, bars, maps of winners, changes between files, and charts for a terminal.

Data flows one way. `picture_plan` decides: it takes points and pages from `selection` and gives them a look. `panels` draw
one panel each, and `page` puts panels, legend and caption together. `changes` draws a comparison, and `terminal` draws in
text. `over_time` draws a history. `style` holds colours and spelling for all of them. The same CSVs give the same bytes.
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
from kbench.comparison.model import Comparison
from kbench.comparison.options import CompareOptions
from kbench.errors import ResultsError, UsageError
from kbench.files import replace
from kbench.history.report import HistoryReport
from kbench.plotting import changes, over_time
from kbench.plotting.page.figure import draw, draw_heatmap
from kbench.plotting.picture_plan import Choices, plan_pictures
from kbench.plotting.style.formatting import combination_of, file_name_part
from kbench.plotting.style.theme import styled, theme_by_name
from kbench.text.suggest import unknown

__all__ = [
    "PICTURE_FORMATS",
    "Choices",
    "Picture",
    "plot",
    "plot_changes",
    "plot_history",
    "rendered",
    "terminal_charts",
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
    """A figure, and the combination it shows as a part of a file name: "" or `float16-M64`."""

    combination: str
    figure: Figure


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
    what = {"bars": f"{metric}_bars", "heatmap": "winners", "change": changed}.get(choices.kind, metric)
    folder = sources[0].path.parent if out_dir is None else Path(out_dir)
    begin = f"{stem[:LONGEST_STEM]}_{what}"
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
        path = folder / f"{name}.{suffix}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            replace(path, rendered(picture, suffix, theme))
        except OSError as error:
            raise ResultsError(
                f"{path}: cannot be written ({error.strerror or error}); choose another folder"
            ) from None
        yield path


def plot(sources: Sequence[ResultsFile], choices: Choices) -> Iterator[Picture]:
    """The pictures of files that `load_sources` read, one after the other. Raises UsageError and ResultsError."""
    if choices.kind == "change":
        yield from plot_changes(_compared(sources, choices), choices)
        return
    planned = plan_pictures(sources, choices)
    for page in planned.pages:
        with styled(theme_by_name(choices.theme)):
            if planned.kind == "heatmap":
                figure = draw_heatmap(page, planned.look, planned.caption)
            else:
                figure = draw(page, planned.look, planned.caption, bars_only=planned.kind == "bars")
        yield Picture(combination_of(page.fixed), figure)


def terminal_charts(sources: Sequence[ResultsFile], choices: Choices, width: int, *, plain: bool) -> Iterator[str]:
    """Charts of characters in lines of `width`, one after the other, then the caption. `plain` ones are ASCII."""
    from kbench.plotting.terminal import charts

    planned = plan_pictures(sources, choices)
    yield from charts(planned.pages, planned.look, planned.caption, width, kind=planned.kind, plain=plain)


def plot_changes(comparison: Comparison, choices: Choices) -> Iterator[Picture]:
    """The pictures of a comparison. Raises ResultsError where no row has a change."""
    shared, pages = changes.pages(comparison, choices.x, choices.by)
    for page in pages:
        with styled(theme_by_name(choices.theme)):
            figure = changes.draw(shared, page, theme_by_name(choices.theme))
        yield Picture(combination_of(page.fixed), figure)


def plot_history(report: HistoryReport, theme: str) -> Iterator[Picture]:
    """The pictures of a history, one for each machine and operator with a time. Raises UsageError for an unknown theme."""
    look = theme_by_name(theme)
    machines = {each.key.machine for each in report.series}
    taken: Counter[str] = Counter()
    for page in over_time.history_pages(report):
        with styled(theme_by_name(theme)):
            figure = over_time.draw_history(page, look)
        parts = [page.operator, *([page.machine] if len(machines) > 1 else [])]
        name = file_name_part("-".join(parts))[:LONGEST_STEM]
        taken[name] += 1
        yield Picture(name if taken[name] == 1 else f"{name}-{taken[name]}", figure)


def rendered(picture: Picture, form: str, theme: str) -> bytes:
    """A picture as the bytes of a file in one of PICTURE_FORMATS."""
    stream = io.BytesIO()
    with styled(theme_by_name(theme)):
        picture.figure.savefig(stream, format=form, metadata=PICTURE_FORMATS[form])
    return stream.getvalue()


def _compared(sources: Sequence[ResultsFile], choices: Choices) -> Comparison:
    """The comparison of two files, the old one first. Raises UsageError."""
    named = [f"{source.label.replace('=', '-')}={source.path}" for source in sources]
    options = CompareOptions(
        where=sources[0].where,
        metric=choices.metric_of(sources),
        margin=choices.margin,
    )
    return compare_results(*named, options=options)
