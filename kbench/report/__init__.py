"""Results as one HTML page that opens anywhere: summary, interactive plot, tables, failures, machine and method.

Data goes one way: `content` reads files and makes of them what JSON can hold (`standings`, `rows`, `machine` and `verdicts`
are its parts), and `page` puts that into the template, with styles, scripts and the chart library beside it. The page needs
no network, and what comes from a file is data in it, never markup.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from kbench.files import replace
from kbench.report.content import content
from kbench.report.page import page
from kbench.results.row import ResultsError

__all__ = ["write"]


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
    `readable` puts other names in the place of those of temporary files. Raises TableError for files that cannot be read
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


class _Callable(ModuleType):
    """This package under the name of the function `kbench.report`: importing it must not take the function away."""

    def __call__(self, *sources: Any, **options: Any) -> Path:
        from kbench.api import report

        return report(*sources, **options)


sys.modules[__name__].__class__ = _Callable
