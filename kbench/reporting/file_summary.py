"""The summary of a file: a line per provider, the fastest provider of each case where it has rivals, and notes on the noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from kbench.analysis import Analysis, CaseKey, Outcome, Standing, Winner
from kbench.analysis.files import ResultsFile
from kbench.reporting.json_columns import Json, number_column, word_column
from kbench.results.row import Row
from kbench.results.vocabulary import Role
from kbench.summary import caveats, copy_share, counts
from kbench.summary.sentences import PLAUSIBLE_SHARE
from kbench.summary.tables import record


def file_summary(source: ResultsFile) -> Json:
    """The summary of a file as JSON can hold it."""
    found = source.analysis
    rows = found.rows
    members = [row for row in rows if row.role == Role.PROVIDER]
    return {
        "file": source.label,
        "path": str(source.path),
        "operators": list(dict.fromkeys(row.case.operator for row in members)),
        "dtypes": list(dict.fromkeys(row.case.dtype for row in members)),
        "cases": len({row.case for row in members}),
        "providers": len(found.standings),
        "sessions": len({row.session for row in rows}),
        "devices": _seen(row.device for row in members),
        "dates": sorted({row.started_at[:10] for row in members if row.started_at}),
        "counts": counts(rows),
        "headline": found.headline(),
        "caveats": [*caveats(found), *source.warnings],
        "baseline": found.baseline,
        "table": _table(found, members),
        "winners": _winners(found.winners if _has_rivals(found) else [], found.models),
    }


def _seen(names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name})


def _table(found: Analysis, rows: Sequence[Row]) -> Json:
    """A line per provider. How often it is fastest stands there only where it has a rival."""
    lines, baseline = found.standings, found.baseline
    open_ = any(line.count(Outcome.UNCLEAR) for line in lines)
    dtypes = list(dict.fromkeys(row.case.dtype for row in rows))
    weighted = ", weighted" if found.weights else ""
    columns = [word_column("curve", (line.configuration_name for line in lines), "provider")]
    if baseline is not None and not found.noise.too_noisy:
        columns += [
            number_column(
                "geomean", (_over(line, baseline) for line in lines), f"speed-up (geomean{weighted})", "factor"
            ),
            word_column(
                "record", (record(line, with_unclear=open_) for line in lines), "faster/tie/slower" + "/?" * open_
            ),
        ]
    columns.append(number_column("timed", (line.timed for line in lines), "cases", "whole"))
    if _has_rivals(found):
        columns.append(number_column("sole", (line.sole for line in lines), "fastest", "whole"))
        columns.append(number_column("shared", (line.shared for line in lines), "tied for fastest", "whole"))
    if any(line.undecided for line in lines):
        columns.append(number_column("undecided", (line.undecided for line in lines), "unclear", "whole"))
    for dtype in dtypes if baseline is not None and len(dtypes) > 1 and not found.noise.too_noisy else ():
        part = (line.geomean_of(key for key in line.over_baseline if key.case.dtype == dtype) for line in lines)
        columns.append(number_column(f"geomean {dtype}", part, f"{dtype} (geomean{weighted})", "factor"))
    columns += [
        *_speeds(lines),
        number_column("ulp", (line.max_ulp for line in lines), "max ulp", "ulp"),
        word_column(
            "flags",
            (_flags([row for row in rows if row.configuration_name == line.configuration_name]) for line in lines),
        ),
    ]
    return {"count": len(lines), "columns": columns}


def _has_rivals(found: Analysis) -> bool:
    """Whether more than one provider was timed."""
    return sum(line.timed > 0 for line in found.standings) > 1


def _over(line: Standing, baseline: str) -> float | None:
    return 1.0 if line.configuration_name == baseline and line.timed else line.geomean


def _winners(won: Sequence[Winner], models: Mapping[CaseKey, str]) -> Json:
    """The winner of every case, its margin over the runner-up, and the providers that it ties with."""
    axes = list(won[0].case.axes) if won else []
    columns = [
        *(word_column(name, (winner.case.axes[name] for winner in won)) for name in axes),
        *([word_column("model", (models.get(winner.key, "") for winner in won))] if models else []),
        word_column("dtype", (winner.case.dtype for winner in won)),
        word_column("fastest", (winner.configuration_name for winner in won)),
        number_column(
            "margin", (winner.margin if winner.sole else None for winner in won), "runner-up takes", "factor"
        ),
        word_column("tied", (", ".join(winner.tied) for winner in won), "tied with"),
        word_column("unclear", (", ".join(winner.unclear) for winner in won), "may be as fast"),
    ]
    return {"count": len(won), "columns": columns}


def _speeds(lines: Sequence[Standing]) -> list[Json]:
    """The share of the copy; for an operator that counts its operations TFLOP/s and the share of the speed of light."""
    if all(line.tflops is None for line in lines):
        return [_copy_fractions(lines)]
    return [
        number_column("tflops", (line.tflops for line in lines), "best TFLOP/s", "gbps"),
        number_column("sol", (line.sol for line in lines), "sol", "share"),
    ]


def _copy_fractions(lines: Sequence[Standing]) -> Json:
    """Numbers where all are plausible, else text that says so."""
    fractions = [line.copy_fraction for line in lines]
    if all(fraction is None or fraction <= PLAUSIBLE_SHARE for fraction in fractions):
        return number_column("copy_fraction", fractions, "of copy", "share")
    return word_column("copy_fraction", ["" if each is None else copy_share([each]) for each in fractions], "of copy")


def _flags(rows: Sequence[Row]) -> str:
    raised = Counter(flag for row in rows for flag in row.flags)
    return ", ".join(f"{count} {flag}" for flag, count in raised.most_common())
