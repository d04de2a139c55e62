"""What a page on results files says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from kbench import explain
from kbench.analysis import Analysis
from kbench.analysis.files import ResultsFile, Source, load_sources, read_file
from kbench.analysis.metrics import METRICS, default_metric
from kbench.comparison.environment import environment_properties
from kbench.errors import ResultsError, UsageError
from kbench.plotting import Choices, plot, plot_changes
from kbench.reporting.parts import inline_svg, number, page_table
from kbench.results.row import COLUMNS, CONDITION_COLUMNS, Row
from kbench.results.vocabulary import Control, Status
from kbench.summary.sentences import caveats, counts, headline, left_out
from kbench.summary.tables import details_table, standings_table
from kbench.text.numbers import microseconds, speed, ulps
from kbench.text.table import Table

ALWAYS_EXPLAINED = ("tie", Control.COPY, Control.REPEAT, "copy_fraction", "max_ulp")
"""Words that every page explains."""

SHOWN_METRICS = {
    "tflops": ("tflops", "ms", "speedup", "sol"),
    "gbps": ("gbps", "ms", "speedup", "copy_fraction"),
    "ms": ("ms", "speedup"),
}
"""By the metric that is drawn first: what the pictures show, where rows have it."""

MOST_PICTURES = 8
"""If a metric needs more pictures, the page has only those of the first metric."""

NUMBERS = {
    "ms": microseconds,
    "ms_p20": microseconds,
    "ms_p80": microseconds,
    "gbps": speed,
    "copy_fraction": "{:.3f}".format,
    "tflops": speed,
    "sol": "{:.3f}".format,
    "speedup": lambda ratio: f"{ratio:.2f}x" if ratio >= 0.1 else f"{ratio:.2g}x",
    "max_ulp": ulps,
    "launch_ms": microseconds,
    "build_ms": "{:.0f}".format,
    "sm_mhz": "{:.0f}".format,
    "power_w": "{:.0f}".format,
    "temp_c": "{:.0f}".format,
}
"""The columns of measured numbers that the page shows, and how it writes them."""


DATES = ("started_at", "finished_at")
"""Entries that differ between any two runs. The page does not mark their differences."""

DIFFERS = "≠ differs"


def content(
    named: Sequence[Source], *, baseline: Source | None = None, where: str = "", title: str = ""
) -> dict[str, Any]:
    """The content of a page on results files. Raises UsageError and ResultsError."""
    files = list(map(read_file, named))
    sources = load_sources(files, where)
    members = [(source.label, row) for source in sources for row in source.rows]
    members.sort(key=lambda member: not member[1].of_provider)
    common, rows = _all_rows(sources, members)
    pictures, no_picture = _pictures(sources)
    measured = [row for source in sources for row in source.results.provider_rows]
    dates = sorted(row.started_at[:10] for row in measured)
    facts = [*(row.case.operator for row in measured), *(row.device for row in measured), *dates]
    return {
        "title": title or f"kbench: {', '.join(source.label for source in sources)}",
        "lede": " · ".join(dict.fromkeys([*filter(None, facts), *(str(source.path) for source in sources)])),
        "files": [_summary(source) for source in sources],
        "comparison": _comparison(files, read_file(baseline), where) if baseline is not None else None,
        "pictures": pictures,
        "no_picture": no_picture,
        "rows": rows,
        "same": common,
        "lost": {source.label: left_out(source.rows) for source in sources if left_out(source.rows)},
        "measurement": _measurement(sources),
        "runs": _runs(sources),
        "words": _glossary(row for _, row in members),
    }


def _comparison(files: Sequence[ResultsFile], baseline: ResultsFile, where: str) -> dict[str, Any]:
    """The files against the baseline, which may be one of them. Verdicts that need attention come first in the table."""
    from kbench.comparison import report
    from kbench.comparison.compare import compare_results  # scipy, which this needs, is slow to import
    from kbench.comparison.model import CompareOptions

    contenders = [file for file in files if file.path.resolve() != baseline.path.resolve()] or files
    if len(contenders) > 1:
        names = " and ".join(str(file.path) for file in contenders)
        raise UsageError(f"--baseline compares one file with the baseline, but got {names}; name one of them")
    comparison = compare_results(baseline, *contenders, options=CompareOptions(where=where))
    rows = report.ordered(comparison)
    table = report.row_table(rows, comparison)
    words = [row.verdict.value for row in rows]  # their colour stands for their sign
    pictures = [inline_svg(picture) for picture in plot_changes(comparison)] if comparison.comparable else []
    columns = [
        (head, words if head == "verdict" else cells) for head, cells in zip(table.header, table.columns, strict=True)
    ]
    return {
        "title": report.title(comparison),
        "counts": comparison.counts,
        "notes": [*report.notes(comparison), *report.next_steps(comparison)],
        "differences": report.difference_table(comparison).rows,
        "pictures": pictures,
        "table": page_table(columns),
    }


def _summary(source: ResultsFile) -> dict[str, Any]:
    analysis = source.analysis
    return {
        "file": source.label,
        "counts": counts(analysis.rows),
        "headline": headline(analysis),
        "baseline": analysis.baseline,
        "caveats": [*caveats(analysis), *source.warnings],
        "standings": _standings(analysis, source.results.provider_rows),
        "winners": details_table(analysis) if _has_rivals(analysis) else None,
    }


def _standings(analysis: Analysis, members: Sequence[Row]) -> Table:
    """The table of providers of `kbench show`, with the providers that have no time, and with flags."""
    table = standings_table(analysis, untimed=True)
    if not _has_rivals(analysis):
        table = table.drop("fastest").drop("tied")
    renamed = {"tied": "tied for fastest", "?": "unclear"}
    raised = Counter((row.configuration_name, flag) for row in members for flag in row.flags)
    flags = [
        ", ".join(f"{count} {flag}" for (name, flag), count in raised.most_common() if name == provider)
        for provider, *_ in table.rows
    ]
    shown = [(renamed.get(head, head), cells) for head, cells in zip(table.header, table.columns, strict=True)]
    return page_table([*shown, ("flags", flags)])


def _has_rivals(analysis: Analysis) -> bool:
    """Whether more than one provider was timed."""
    return sum(line.timed > 0 for line in analysis.standings) > 1


def _pictures(sources: Sequence[ResultsFile]) -> tuple[dict[str, list[str]], str]:
    """The pictures by the label of their metric, and a sentence if some metrics have none."""
    first = default_metric(source.rows for source in sources)
    pictures: dict[str, list[str]] = {}
    for name in (*SHOWN_METRICS[first], "ulp"):
        if name == "ulp" and pictures:
            break  # errors are for rows without a time
        try:
            drawn = [inline_svg(picture) for picture in plot(sources, Choices(name))]
        except UsageError as error:
            return pictures, str(error)
        except ResultsError:  # no row has this metric
            continue
        pictures[METRICS[name].label] = drawn
        if len(drawn) > MOST_PICTURES:
            others = "kbench plot --metric draws the other metrics"
            return pictures, f"There are too many pictures for a page. {others}."
    if not pictures:
        return {}, "There is nothing to draw: no provider has a value. See the reasons below."
    return pictures, ""


def _all_rows(sources: Sequence[ResultsFile], members: Sequence[tuple[str, Row]]) -> tuple[list[str], Table]:
    """What all rows have in common, and the table of all rows without it."""
    rows = [row for _, row in members]
    axes = dict.fromkeys(axis for source in sources for axis in source.axes)
    numbers = [
        (
            COLUMNS[name].heading("µs" if write is microseconds else ""),
            [number(getattr(row, name), write) for row in rows],
        )
        for name, write in NUMBERS.items()
    ]
    columns = [
        ("provider", [row.configuration_name + " (control)" * (not row.of_provider) for row in rows]),
        ("file", [label for label, _ in members]),
        ("operator", [row.case.operator for row in rows]),
        *((axis, [str(row.case.axes.get(axis, "")) for row in rows]) for axis in axes),
        ("dtype", [row.case.dtype for row in rows]),
        ("session", [str(row.session) for row in rows]),
        ("status", [row.status.value for row in rows]),
        *numbers,
        ("flags", [", ".join(row.flags) for row in rows]),
        ("model", [row.model.replace(";", ", ") for row in rows]),
        ("weight", [number(row.weight, "{:g}".format) for row in rows]),
        *((name, [getattr(row, name) for row in rows]) for name in ("timer", "cache", "device")),
        ("throttle", [str(row.throttle or "") for row in rows]),
        ("reason", [row.reason for row in rows]),
    ]
    shared = [column for column in columns[1:] if column not in numbers and len(set(column[1])) == 1]
    common = [
        f"{head}={cells[0]}" if head in axes else cells[0]
        for head, cells in shared
        if cells[0] and head not in ("file", "session")
    ]
    return common, page_table([column for column in columns if column not in shared])


def _glossary(rows: Iterable[Row]) -> dict[str, str]:
    """The explanations of `kbench explain` for the statuses and flags that occur."""
    used = {word for row in rows for word in (row.status.value, *row.flags)}
    words = [word for texts in explain.KINDS.values() for word in texts if word in used or word in ALWAYS_EXPLAINED]
    explanations = {word: explain.find_explanation(word) for word in words}
    return {word: explanation.text if explanation else "" for word, explanation in explanations.items()}


def _measurement(sources: Sequence[ResultsFile]) -> Table:
    """How and on which machine each file was measured, with a column per file. A missing value is no difference."""
    columns = [_properties(source) for source in sources]
    rows = []
    for name in dict.fromkeys(name for column in columns for name in column):
        values = [column.get(name, "") for column in columns]
        differs = len(set(values) - {""}) > 1 and name not in DATES
        rows.append([name, *values, DIFFERS if differs else ""])
    return Table(("", *(source.label for source in sources), ""), rows)


def _runs(sources: Sequence[ResultsFile]) -> list[dict[str, str]]:
    """What repeats the measurement of each file: the command and the config, where the environment file has them."""
    commands = []
    for source in sources:
        environment = source.environment
        path, text = (environment.config.path, environment.config.text) if environment.config else ("", "")
        commands.append({"file": source.label, "command": " ".join(environment.command), "path": path, "text": text})
    return [run for run in commands if run["command"] or run["text"]]


def _properties(source: ResultsFile) -> dict[str, str]:
    """Device, timer, cache and sessions from the rows, and what the environment file says."""
    timed = [row for row in source.rows if row.status is Status.OK and row.of_provider]
    of_rows = {}
    for name in CONDITION_COLUMNS:
        values = {getattr(row, name) for row in timed} - {""}
        of_rows[name] = "/".join(sorted(values))
    of_rows |= {"sessions": str(len({row.session for row in source.rows})), "rows": str(len(source.rows))}
    environment = source.environment
    more = {
        "started_at": environment.started_at,
        "finished_at": environment.finished_at,
        "git commit": environment.git and environment.git.commit,
        "config sha": environment.config and environment.config.sha,
    }
    return {name: value for name, value in {**of_rows, **environment_properties(environment), **more}.items() if value}
