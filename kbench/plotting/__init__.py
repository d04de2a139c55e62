"""Pictures of results: lines, bars, a map of winners, and a chart for the terminal.

Data goes one way: `source` reads the files, `points` says what of their rows is drawn, `pages` what is a panel and what a
picture of its own (`plan` ties these together); `lines`, `bars` and `heatmap` draw a panel, and `figure` puts panels,
legend and caption together. `chart` does the same in text. The same CSVs give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.style
from matplotlib.figure import Figure

from kbench.plotting import theme as themes
from kbench.plotting.figure import draw, draw_heatmap
from kbench.plotting.plan import Choices, plan
from kbench.plotting.source import Source, load
from kbench.plotting.words import plain, spell
from kbench.table import TableError

__all__ = ["FORMATS", "Choices", "Picture", "plot", "write"]

FORMATS: dict[str, dict[str, Any]] = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
"""Picture formats, each with the metadata that would change from one moment or version to the next."""


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

    `files` are paths or `LABEL=path`; several become one picture. `where` chooses rows, as kbench/where.py reads it.
    Raises TableError when there is nothing to draw or nowhere to write.
    """
    if unknown := [name for name in formats if name not in FORMATS]:
        raise TableError(f"no picture format {unknown[0]!r}; there are {', '.join(FORMATS)}")
    sources = load([files] if isinstance(files, (Path, str)) else files, where)
    stem = "-vs-".join(source.path.stem if len(sources) == 1 else plain(source.label) for source in sources)
    what = {"bars": f"{choices.metric}_bars", "heatmap": "winners"}.get(choices.kind, choices.metric)
    folder = sources[0].path.parent if out_dir is None else Path(out_dir)
    paths = []
    for picture in plot(sources, choices):
        theme = choices.theme if choices.theme != "light" else ""
        name = "_".join(filter(None, [stem, what, picture.combination, theme]))
        for suffix in formats:
            path = folder / f"{name}.{suffix}"
            try:
                folder.mkdir(parents=True, exist_ok=True)
                with _styled(choices.theme):
                    picture.figure.savefig(path, format=suffix, metadata=FORMATS[suffix])
            except OSError as error:
                raise TableError(f"{path}: cannot be written ({error.strerror}); choose another folder") from None
            paths.append(path)
    return paths


def plot(sources: Sequence[Source], choices: Choices) -> Iterator[Picture]:
    """The pictures of files that `source.load` read, one after the other. Raises TableError."""
    planned = plan(sources, choices)
    for page in planned.pages:
        with _styled(choices.theme):
            if planned.kind == "heatmap":
                figure = draw_heatmap(page, planned.look, planned.titled, planned.caption, planned.y)
            else:
                bars_only = planned.kind == "bars"
                figure = draw(page, planned.look, planned.titled, planned.caption, bars_only=bars_only)
        yield Picture(spell(page.fixed), figure)


def _styled(theme: str) -> Any:
    """Matplotlib with the settings of a theme, and nothing of the user's own."""
    return matplotlib.style.context(["default", themes.named(theme).rc()])
