"""Results as one HTML page that opens anywhere: summary, interactive plot, tables, failures, machine and method.

Data flows one way. `content` reads the files and makes JSON of them; its parts are `file_summary`, `row_table`, `plot_data`,
`machine` and `comparison_part`. `history_content` does the same for a history. `page` puts the JSON into the template, with
styles, scripts and the chart library. The page needs no network. Text from files is never markup in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from kbench.errors import ResultsError
from kbench.files import replace
from kbench.history.check import check_history
from kbench.history.report import HistoryOptions
from kbench.reporting.content import content
from kbench.reporting.history_content import history_content
from kbench.reporting.page import HISTORY_SCRIPTS, html_page


def write_report(
    files: Sequence[Path | str],
    out: Path | str = "report.html",
    *,
    baseline: Path | str | None = None,
    where: str = "",
    title: str = "",
    readable: Callable[[str], str] = str,
) -> Path:
    """Write a page on results files and return its path.

    `files` are paths or `LABEL=path`. `baseline` is a results file to compare the others with. `where` chooses rows (see
    kbench/results/row_filter.py). `readable` replaces the names of temporary files in the page. Raises UsageError for
    wrong choices, ResultsError for files that cannot be read or compared and where the page cannot be written.
    """
    return _write(readable(html_page(content(files, baseline=baseline, where=where, title=title))), Path(out))


def write_history_report(folder: Path, out: Path | str = "report.html", *, where: str = "", title: str = "") -> Path:
    """Write a page on a history (see kbench/history) and return its path. Raises as `write_report` does."""
    report = check_history(folder, HistoryOptions(where, everything=True))
    return _write(html_page(history_content(report, title), HISTORY_SCRIPTS), Path(out))


def _write(text: str, path: Path) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, text.encode("utf-8", "replace"))
    except OSError as error:
        raise ResultsError(
            f"{path}: cannot be written ({error.strerror or error}); choose another place with --out"
        ) from None
    return path
