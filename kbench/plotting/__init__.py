"""Pictures of results: lines, bars, maps of winners, changes between two files, and histories. And charts of text.

`pages` makes points from the rows of results files and divides them into panels, which `lines`, `bars` and `maps` draw;
`results` is their way from a file to a picture. `changes` draws a comparison, `history` a history.
`terminal` prints lines, bars and maps as text. All share the page of `sheet`, the look of `style` and the spelling of `names`.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from kbench.analysis.files import ResultsFile, Source, load_sources
from kbench.errors import ResultsError, UsageError
from kbench.files import replace
from kbench.plotting import bars, lines, maps
from kbench.plotting.names import combination_of, file_name_part
from kbench.plotting.pages import Look, Page, Point
from kbench.plotting.results import Choices, pages_of
from kbench.plotting.style import styled, theme_by_name
from kbench.text.suggest import unknown

if TYPE_CHECKING:  # scipy, which these need, is slow to import
    from kbench.comparison.model import Comparison
    from kbench.history.report import HistoryReport

__all__ = [
    "PICTURE_FORMATS",
    "Choices",
    "Picture",
    "plot",
    "plot_changes",
    "plot_history",
    "write_history_pictures",
    "write_pictures",
]

PICTURE_FORMATS: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}
"""Picture formats, and for each the metadata to leave out because it changes with the date or the version."""

LONGEST_NAME = 160
"""Characters of a part of a picture's name. File systems take 255 characters for a whole name."""

DEFAULT_CHOICES = Choices()

DRAW_PAGE: dict[str, Callable[[Page[Any], Look], Figure]] = {
    "lines": lines.draw_page,
    "bars": bars.draw_page,
    "heatmap": maps.draw_page,
}


@dataclass(frozen=True)
class Picture:
    """A figure, the combination it shows as a part of a file name ("" or `float16-M64`), and the points of each panel of
    lines."""

    combination: str
    figure: Figure
    lines: Sequence[Sequence[Point]] = ()


def write_pictures(
    files: Sequence[Source],
    choices: Choices = DEFAULT_CHOICES,
    out_dir: Path | str | None = None,
    formats: Sequence[str] = ("png", "svg"),
    *,
    where: str = "",
) -> list[Path]:
    """Draw results into `<stem>_<metric>[_<combination>].<format>` and return the paths.

    Several files become one picture. `out_dir` is by default the folder of the first file. `where` chooses rows.
    Raises UsageError for wrong choices, ResultsError where there is nothing to draw or a picture cannot be written.
    """
    sources = load_sources(files, where)
    stem = "-vs-".join(source.path.stem if len(sources) == 1 else file_name_part(source.label) for source in sources)
    metric = choices.metric_of(sources)
    changed = "change" if metric == "ms" else f"{metric}_change"
    subject = {"bars": f"{metric}_bars", "heatmap": "winners", "change": changed}.get(choices.kind, metric)
    folder = sources[0].path.parent if out_dir is None else Path(out_dir)
    return _write(plot(sources, choices), folder, f"{stem[:LONGEST_NAME]}_{subject}", formats, choices.theme)


def write_history_pictures(
    report: HistoryReport, out_dir: Path, formats: Sequence[str] = ("png", "svg"), theme: str = "light"
) -> list[Path]:
    """Draw a history into `history_<operator>[_<machine>].<format>` and return the paths. Raises as `write_pictures` does."""
    paths = _write(plot_history(report, theme), out_dir, "history", formats, theme)
    if not paths:
        raise ResultsError(f"{report.path}: no reading has a time, so there is nothing to draw")
    return paths


def _write(pictures: Iterable[Picture], folder: Path, begin: str, formats: Sequence[str], theme: str) -> list[Path]:
    """Write pictures in each format. Their names begin with `begin`, and no two have the same."""
    if strange := [name for name in formats or [""] if name not in PICTURE_FORMATS]:  # no format would draw nothing
        raise UsageError(f"--format: {unknown('format', strange[0], list(PICTURE_FORMATS))}")
    if folder.suffix[1:] in PICTURE_FORMATS:
        raise UsageError(f"--out {folder}: kbench names the pictures; give their folder, and their type with --format")
    paths: list[Path] = []
    names: Counter[str] = Counter()
    for picture in pictures:
        name = "_".join(filter(None, [begin, picture.combination[:LONGEST_NAME]]))
        names[name] += 1
        name += f"-{names[name]}" if names[name] > 1 else ""
        for suffix in formats:
            path, stream = folder / f"{name}{'' if theme == 'light' else f'_{theme}'}.{suffix}", io.BytesIO()
            with styled(theme_by_name(theme)):
                picture.figure.savefig(stream, format=suffix, metadata=PICTURE_FORMATS[suffix])
            replace(path, stream.getvalue())
            paths.append(path)
    return paths


def plot(sources: Sequence[ResultsFile], choices: Choices) -> list[Picture]:
    """The pictures of files that `load_sources` read. Raises UsageError and ResultsError."""
    if choices.kind == "change":
        from kbench.comparison.compare import compare_results
        from kbench.comparison.model import CompareOptions

        options = CompareOptions(metric=choices.metric_of(sources), margin=choices.margin)
        return plot_changes(compare_results(*sources, options=options), choices)
    pictures = []
    with styled(theme_by_name(choices.theme)):
        for page, look in pages_of(sources, choices):
            points = page.panels if look.kind == "lines" else ()
            pictures.append(Picture(combination_of(page.fixed), DRAW_PAGE[look.kind](page, look), points))
    return pictures


def plot_changes(comparison: Comparison, choices: Choices) -> list[Picture]:
    """The pictures of a comparison. Raises ResultsError where no row has a change."""
    from kbench.plotting.changes import draw_changes

    theme = theme_by_name(choices.theme)
    with styled(theme):
        return [Picture(*drawn) for drawn in draw_changes(comparison, choices.x, choices.by, theme)]


def plot_history(report: HistoryReport, theme: str) -> list[Picture]:
    """The pictures of a history, one for each machine and operator with a time. Raises UsageError for an unknown theme."""
    from kbench.plotting.history import draw_history

    with styled(theme_by_name(theme)):
        return [Picture(*drawn) for drawn in draw_history(report, theme_by_name(theme))]
