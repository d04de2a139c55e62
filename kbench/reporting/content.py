"""The whole content of a page, as JSON can hold it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from kbench import explain
from kbench.analysis.files import load_sources
from kbench.comparison.compare import compare_results
from kbench.comparison.model import Comparison
from kbench.comparison.options import CompareOptions
from kbench.reporting import machine
from kbench.reporting.comparison_part import comparison_part
from kbench.reporting.file_summary import file_summary
from kbench.reporting.json_columns import Json
from kbench.reporting.plot_data import plot_data
from kbench.reporting.row_table import joined_rows, row_table
from kbench.results.case import MODES
from kbench.results.row import Row
from kbench.results.sources import parse_source
from kbench.results.vocabulary import CHECKED_REASON, Control, Role, Status
from kbench.version import __version__

ALWAYS_EXPLAINED = ("tie", Control.COPY, Control.REPEAT, "copy_fraction", "max_ulp")
"""Words that every page explains."""


def content(
    files: Sequence[Path | str], *, baseline: Path | str | None = None, where: str = "", title: str = ""
) -> Json:
    """The content of a page on results files. Raises UsageError and ResultsError."""
    sources = load_sources(files, where)
    rows = {source.label: source.analysis.rows for source in sources}
    compared = _compared(files, baseline, where)
    joined = joined_rows(sources)
    return {
        "title": title or f"kbench: {', '.join(source.label for source in sources)}",
        "version": __version__,
        "files": [file_summary(source) for source in sources],
        "rows": row_table(joined, sources),
        "modes": MODES,
        "plot": plot_data(joined, sources),
        "lost": _lost(rows),
        "failures": [status.value for status in Status if status.failed],
        "machine": machine.machine(sources),
        "method": machine.method(sources),
        "configs": machine.configs(sources),
        "comparison": comparison_part(compared) if compared else None,
        "words": _glossary([row for members in rows.values() for row in members]),
    }


def _compared(files: Sequence[Path | str], baseline: Path | str | None, where: str) -> Comparison | None:
    """The files against the baseline, which may be one of them."""
    if baseline is None:
        return None
    old = parse_source(baseline)[1].resolve()
    contenders = [file for file in files if parse_source(file)[1].resolve() != old]
    return compare_results(baseline, *(contenders or files), options=CompareOptions(where=where))


def _lost(rows: Mapping[str, Sequence[Row]]) -> list[Json]:
    """Rows without a time by file, curve, status and reason, with their cases. Failures come first."""
    groups: dict[tuple[str, str, Status, str], list[Row]] = {}
    for file, members in rows.items():
        for row in members:
            if row.role == Role.PROVIDER and row.status is not Status.OK:
                groups.setdefault((file, row.configuration_name, row.status, row.reason), []).append(row)
    ordered = sorted(groups.items(), key=lambda group: not group[0][2].failed)
    return [
        {
            "file": file,
            "curve": curve,
            "status": status.value,
            "failed": status.failed,
            "reason": reason or CHECKED_REASON,
            "cases": list(dict.fromkeys(row.case.label for row in members)),
        }
        for (file, curve, status, reason), members in ordered
    ]


def _glossary(rows: Sequence[Row]) -> list[Json]:
    """The explanations of `kbench explain` for the statuses and flags that occur."""
    seen = {row.status.value for row in rows} | {flag for row in rows for flag in row.flags}
    known = [word for texts in explain.KINDS.values() for word in texts if word in seen or word in ALWAYS_EXPLAINED]
    return [{"word": word, "text": found.text if (found := explain.find_explanation(word)) else ""} for word in known]
