"""Pictures of results: lines, bars, maps of winners, changes between two files, and histories. And charts of text.

`pages` makes points from the rows of results files and divides them into panels, which `lines`, `bars` and `maps` draw;
`results` is their way from a file to a picture. `changes` draws a comparison, `history` a history, `choices` a dispatch.
`terminal` prints lines, bars and maps as text. All share the page of `sheet`, the look of `style` and the spelling of `names`.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from kbench.analysis.files import ResultsFile, Source, load_sources
from kbench.errors import ResultsError, UsageError
from kbench.files import replace
from kbench.plotting import bars, lines, maps
from kbench.plotting.names import combination_of, file_name_part
from kbench.plotting.pages import Look, Page, Picture, series_of
from kbench.plotting.results import Choices, pages_of
from kbench.plotting.style import LIGHT, styled
from kbench.text.suggest import unknown

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

DEFAULT_CHOICES = Choices()

DRAW_PAGE: dict[str, Callable[[Page[Any], Look], Figure]] = {
    "lines": lines.draw_page,
    "bars": bars.draw_page,
    "heatmap": maps.draw_page,
}


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
    return _write(pictures, folder, f"{stem}_{subject}", formats, choices.theme)


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
        name = "_".join(filter(None, [begin, picture.combination]))
        names[name] += 1
        name += f"-{names[name]}" if names[name] > 1 else ""
        name += "" if theme == LIGHT.name else f"_{theme}"
        for suffix in formats:
            stream = io.BytesIO()
            with styled(theme):
                picture.figure.savefig(stream, format=suffix, metadata=PICTURE_FORMATS[suffix])
            paths.append(folder / f"{name}.{suffix}")
            replace(paths[-1], stream.getvalue())
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
