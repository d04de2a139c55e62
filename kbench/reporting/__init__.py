"""Results as one HTML page that opens anywhere: summary, interactive plot, tables, failures, machine and method.

Data goes one way: `content` reads files and makes of them what JSON can hold (`standings`, `rows`, `machine` and `verdicts`
are its parts), and `page` puts that into the template, with styles, scripts and the chart library beside it. The page needs
no network, and what comes from a file is data in it, never markup.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from kbench.errors import ResultsError
from kbench.files import replace
from kbench.reporting.content import content
from kbench.reporting.page import page


def write(
    files: Sequence[Path | str],
    out: Path | str = "report.html",
    *,
    baseline: Path | str | None = None,
    where: str = "",
    title: str = "",
    readable: Callable[[str], str] = str,
) -> Path:
    """Write a page on results files, `path` or `LABEL=path` each, and return its path.

    `baseline` is a results file that the others are compared with, `where` chooses rows (see kbench/results/row_filter.py),
    `readable` puts other names in the place of those of temporary files. Raises UsageError for files that cannot be read
    or compared, ResultsError where the page cannot be written.
    """
    text = readable(page(content(files, baseline=baseline, where=where, title=title)))
    path = Path(out)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, text.encode("utf-8", "replace"))
    except OSError as error:
        raise ResultsError(
            f"{path}: cannot be written ({error.strerror or error}); choose another place with -o"
        ) from None
    return path
