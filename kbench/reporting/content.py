"""Everything that the page says, as what JSON can hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench import comparison, explain
from kbench.analysis import rows_of
from kbench.analysis.cases import SUSPECT
from kbench.analysis.files import Source, load_sources
from kbench.analysis.metrics import METRICS
from kbench.comparison import Comparison
from kbench.plotting.selection.along import curve_along, parameters_of
from kbench.plotting.selection.points import COPY_CURVE, HOLLOW
from kbench.plotting.style.colours import slots
from kbench.plotting.style.theme import THEMES
from kbench.reporting import machine
from kbench.reporting.rows import Json, columns
from kbench.reporting.standings import standings
from kbench.reporting.verdicts import verdicts
from kbench.results.row import PROVIDER, Row, Status, curve_name
from kbench.version import __version__

SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "star")
DASHES = ("solid", "dash", "dot", "dashdot", "8px,2px,2px,2px,2px,2px", "2px,6px")
"""What plotly calls the markers and lines of kbench/plotting/style/theme.py, in their order."""


def content(
    files: Sequence[Path | str], *, baseline: Path | str | None = None, where: str = "", title: str = ""
) -> Json:
    """The content of a page on results files. Raises UsageError."""
    sources = load_sources(files, where)
    rows = {source.label: rows_of(source.frame) for source in sources}
    found = _compared(files, baseline, where)
    return {
        "title": title or f"kbench: {', '.join(source.label for source in sources)}",
        "version": __version__,
        "standings": [standings(source, rows[source.label]) for source in sources],
        "rows": columns(sources),
        "look": _look(sources),
        "lost": _lost(rows),
        "machine": machine.machine(sources),
        "method": machine.method(sources),
        "configs": machine.configs(sources),
        "comparison": verdicts(found) if found else None,
        "words": _glossary([row for members in rows.values() for row in members]),
    }


def _compared(files: Sequence[Path | str], baseline: Path | str | None, where: str) -> Comparison | None:
    """Against the baseline, which may be one of the files itself."""
    if baseline is None:
        return None
    contenders = [file for file in files if str(file) != str(baseline)]
    return comparison.compare(baseline, *(contenders or files), where=where)


def _look(sources: Sequence[Source]) -> Json:
    """What the chart needs besides rows: metrics, limits of the memory, and the palette with everyone's place in it."""
    return {
        "metrics": [
            {
                "name": metric.name,
                "column": metric.column,
                "label": metric.label,
                "scale": metric.scale,
                "lower": metric.lower_is_better,
                "ratio": metric.ratio,
                "zero": metric.may_be_zero,
                "timed": metric.timed,
                "copy": metric.has_copy,
                "statuses": [status.value for status in metric.statuses],
            }
            for metric in METRICS.values()
        ],
        "themes": {name: _palette(theme) for name, theme in THEMES.items()},
        "symbols": SYMBOLS,
        "dashes": DASHES,
        "slots": _slots(sources),
        "copy": COPY_CURVE,
        "hollow": HOLLOW,
        "suspect": SUSPECT,
        "peaks": {source.label: source.peak_gbps for source in sources},
    }


def _slots(sources: Sequence[Source]) -> dict[str, dict[str, tuple[int, int]]]:
    """The places of curves in the palette, as `colours.slots` has them: under "" those of all curves, under the name of a
    parameter those of the curves that run along it."""
    everyone = frozenset().union(*(source.curves for source in sources))
    found = {"": slots(everyone)}
    rows = {pair for source in sources for pair in zip(source.frame["provider"], source.frame["params"], strict=True)}
    for name in sorted({name for _, params in rows for name in parameters_of(params)}):
        found[name] = slots({curve_along(*row, name) for row in rows if curve_name(*row) in everyone})
    return found


def _palette(theme: Any) -> Json:
    names = ("background", "ink", "muted", "quiet", "grid", "colours")
    return {name: getattr(theme, name) for name in names}


def _lost(rows: Mapping[str, Sequence[Row]]) -> list[Json]:
    """What has no time, by provider, outcome and reason: on which cases. Failures come first."""
    groups: dict[tuple[str, str, Status, str], list[Row]] = {}
    for file, members in rows.items():
        for row in members:
            if row.role == PROVIDER and row.status is not Status.OK:
                groups.setdefault((file, row.curve, row.status, row.reason), []).append(row)
    ordered = sorted(groups.items(), key=lambda group: not group[0][2].failed)
    return [
        {
            "file": file,
            "curve": curve,
            "status": status.value,
            "failed": status.failed,
            "reason": reason or "right, but not timed under the Triton interpreter",
            "cases": list(dict.fromkeys(row.case.label for row in members)),
        }
        for (file, curve, status, reason), members in ordered
    ]


def _glossary(rows: Sequence[Row]) -> list[Json]:
    """What the statuses and flags that occur mean, as `kbench explain` puts it."""
    seen = {row.status.value for row in rows} | {flag for row in rows for flag in row.flags}
    always = ("tie", "copy", "repeat", "copy_fraction", "max_ulp")
    known = [word for texts in explain.KINDS.values() for word in texts if word in seen or word in always]
    return [{"word": word, "text": found.text if (found := explain.find(word)) else ""} for word in known]
