"""Pictures of results: lines, bars, a map of winners, the changes of a comparison, and a chart for the terminal.

Data goes one way: `source` reads the files, `points` says what of their rows is drawn, `pages` what is a panel and what a
picture of its own (`plan` ties these together); `lines`, `bars` and `heatmap` draw a panel, and `figure` puts panels,
legend and caption together. `changes` draws a comparison, and `chart` draws in text. The same CSVs give the same bytes.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.style
from matplotlib.figure import Figure

from kbench.analysis.files import Source, load
from kbench.comparison import Comparison, compare
from kbench.errors import ResultsError, UsageError
from kbench.files import replace
from kbench.plotting import changes
from kbench.plotting.page.figure import draw, draw_heatmap
from kbench.plotting.plan import Choices, plan
from kbench.plotting.style import theme as themes
from kbench.plotting.style.words import plain, spell
from kbench.text.suggest import unknown

__all__ = ["FORMATS", "Choices", "Picture", "plot", "plot_changes", "rendered", "write"]

FORMATS: dict[str, dict[str, Any]] = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
"""Picture formats, each with the metadata that would change from one moment or version to the next."""


LONGEST_STEM = 160
"""Characters that a picture's name has of the files' names: file systems take 255 in all."""

DEFAULT = Choices()


@dataclass(frozen=True)
class Picture:
    """A figure and the combination it shows, as file names spell it: "" or `float16-M64`."""

    combination: str
    figure: Figure


def write(
    files: Path | str | Sequence[Path | str],
    choices: Choices = DEFAULT,
    out_dir: Path | str | None = None,
    formats: Sequence[str] = ("png", "svg"),
    *,
    where: str = "",
) -> list[Path]:
    """Draw results into `<stem>_<metric>[_<combination>].<format>`, beside the (first) CSV or in `out_dir`.

    `files` are paths or `LABEL=path`; several become one picture. `where` chooses rows, as
    kbench/results/row_filter.py reads it.
    Raises UsageError when there is nothing to draw or nowhere to write.
    """
    if strange := [name for name in formats if name not in FORMATS]:
        raise UsageError(f"--format: {unknown('format', strange[0], list(FORMATS))}")
    sources = load([files] if isinstance(files, (Path, str)) else files, where)
    stem = "-vs-".join(source.path.stem if len(sources) == 1 else plain(source.label) for source in sources)
    metric = choices.metric_name
    changed = "change" if metric == "ms" else f"{metric}_change"
    what = {"bars": f"{metric}_bars", "heatmap": "winners", "change": changed}.get(choices.kind, metric)
    folder = sources[0].path.parent if out_dir is None else Path(out_dir)
    paths = []
    for picture in plot(sources, choices):
        theme = choices.theme if choices.theme != "light" else ""
        name = "_".join(filter(None, [stem[:LONGEST_STEM], what, picture.combination, theme]))
        for suffix in formats:
            path = folder / f"{name}.{suffix}"
            try:
                folder.mkdir(parents=True, exist_ok=True)
                replace(path, rendered(picture, suffix, choices.theme))
            except OSError as error:
                raise ResultsError(
                    f"{path}: cannot be written ({error.strerror or error}); choose another folder"
                ) from None
            paths.append(path)
    return paths


def plot(sources: Sequence[Source], choices: Choices) -> Iterator[Picture]:
    """The pictures of files that `source.load` read, one after the other. Raises UsageError."""
    if choices.kind == "change":
        yield from plot_changes(_compared(sources, choices), choices)
        return
    planned = plan(sources, choices)
    for page in planned.pages:
        with _styled(choices.theme):
            if planned.kind == "heatmap":
                figure = draw_heatmap(page, planned.look, planned.titled, planned.caption, planned.y)
            else:
                bars_only = planned.kind == "bars"
                figure = draw(page, planned.look, planned.titled, planned.caption, bars_only=bars_only)
        yield Picture(spell(page.fixed), figure)


def plot_changes(comparison: Comparison, choices: Choices) -> Iterator[Picture]:
    """The pictures of a comparison. Raises ResultsError where no row has a change."""
    shared, pages = changes.pages(comparison, choices.x, choices.by)
    for page in pages:
        with _styled(choices.theme):
            figure = changes.draw(shared, page, themes.named(choices.theme))
        yield Picture(spell(page.fixed), figure)


def rendered(picture: Picture, form: str, theme: str) -> bytes:
    """A picture as the bytes of a file in one of FORMATS."""
    stream = io.BytesIO()
    with _styled(theme):
        picture.figure.savefig(stream, format=form, metadata=FORMATS[form])
    return stream.getvalue()


def _compared(sources: Sequence[Source], choices: Choices) -> Comparison:
    """Several files against the first, or the providers of a single one. Raises UsageError."""
    named = [f"{source.label.replace('=', '-')}={source.path}" for source in sources]
    return compare(
        *named,
        by="provider" if len(named) == 1 else "file",
        baseline=choices.baseline,
        where=sources[0].where,
        metric=choices.metric_name,
        margin=choices.margin,
    )


def _styled(theme: str) -> Any:
    """Matplotlib with the settings of a theme, and nothing of the user's own."""
    return matplotlib.style.context(["default", themes.named(theme).rc()])
