"""Who wins, how often and by how much: a line per provider of a file, and the words on how far to trust it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from kbench.analysis import Analysis, Duel, Outcome, Standing, Winner
from kbench.analysis.files import Source
from kbench.analysis.standings import geomean
from kbench.reporting.rows import Json, finite, numbers, words
from kbench.results.row import PROVIDER, Row
from kbench.summary import caveats, copy_share, counts
from kbench.summary.tables import record
from kbench.summary.words import PLAUSIBLE_SHARE
from kbench.text import redact


def standings(source: Source, rows: Sequence[Row]) -> Json:
    """The standing of a file's providers, the winner of each of its cases, and what to know about them. `rows` are all."""
    members = [row for row in rows if row.role == PROVIDER]
    found = source.analysis
    return {
        "file": source.label,
        "path": redact.text(str(source.path)),
        "operators": list(dict.fromkeys(row.case.operator for row in members)),
        "dtypes": list(dict.fromkeys(row.case.dtype for row in members)),
        "cases": len({row.case.key for row in members}),
        "providers": len(found.standings),
        "sessions": len({row.session for row in rows}),
        "devices": _seen(row.device for row in members),
        "dates": sorted({row.started_at[:10] for row in members if row.started_at}),
        "counts": counts(rows),
        "headline": found.headline(),
        "caveats": [*caveats(found), *map(redact.text, source.frame.attrs["warnings"])],
        "baseline": found.baseline,
        "table": _table(found, members),
        "winners": _winners(found.winners),
    }


def _seen(names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name})


def _table(found: Analysis, rows: Sequence[Row]) -> Json:
    lines, baseline = found.standings, found.baseline
    open_ = any(line.count(Outcome.UNCLEAR) for line in lines)
    dtypes = list(dict.fromkeys(row.case.dtype for row in rows))
    columns = [words("curve", (line.curve for line in lines), "provider")]
    if baseline is not None and not found.noise.too_noisy:
        columns += [
            numbers("geomean", (_over(line, baseline) for line in lines), "speed-up (geomean)", "factor"),
            words("standing", (_standing(line, found) for line in lines), "that is"),
            words("record", (record(line, open_=open_) for line in lines), "faster/tie/slower" + "/?" * open_),
        ]
    columns += [
        numbers("timed", (line.timed for line in lines), "cases", "whole"),
        numbers("sole", (line.sole for line in lines), "fastest", "whole"),
        numbers("shared", (line.shared for line in lines), "tied for it", "whole"),
    ]
    if any(line.undecided for line in lines):
        columns.append(numbers("undecided", (line.undecided for line in lines), "cannot tell", "whole"))
    for dtype in dtypes if baseline is not None and len(dtypes) > 1 and not found.noise.too_noisy else ():
        part = (geomean(_of_dtype(line, dtype)) for line in lines)
        columns.append(numbers(f"geomean {dtype}", part, f"{dtype} (geomean)", "factor"))
    columns += [
        _copy_fractions(lines),
        numbers("ulp", (line.max_ulp for line in lines), "max ulp", "ulp"),
        words("flags", (_flags([row for row in rows if row.curve == line.curve]) for line in lines)),
    ]
    return {"count": len(lines), "columns": columns}


def _over(line: Standing, baseline: str) -> float | None:
    return 1.0 if line.curve == baseline and line.timed else line.geomean


def _of_dtype(line: Standing, dtype: str) -> list[Duel]:
    return [duel for key, duel in line.duels.items() if key.case[2] == dtype]


def _standing(line: Standing, found: Analysis) -> str:
    """In words, so that nobody has to know the noise floor by heart."""
    mean = line.geomean
    if line.curve == found.baseline:
        return "the baseline"
    if mean is None:
        return "not known"
    if abs(math.log(mean)) <= math.log1p(found.noise.floor or 0.0):
        return "a tie"
    return "faster" if mean > 1 else "slower"


def _winners(won: Sequence[Winner]) -> Json:
    """The winner of every case, its margin over the runner-up, and whom it is tied with."""
    axes = list(won[0].case.axes) if won else []
    columns = [
        *(words(name, (winner.case.axes[name] for winner in won)) for name in axes),
        words("dtype", (winner.case.dtype for winner in won)),
        words("fastest", (winner.curve for winner in won)),
        numbers(
            "margin", (finite(winner.margin) if winner.sole else None for winner in won), "runner-up takes", "factor"
        ),
        words("tied", (", ".join(winner.tied) for winner in won), "tied with"),
        words("unclear", (", ".join(winner.unclear) for winner in won), "cannot be told from"),
    ]
    return {"count": len(won), "columns": columns}


def _copy_fractions(lines: Sequence[Standing]) -> Json:
    """As numbers, unless one of them is none."""
    fractions = [line.copy_fraction for line in lines]
    if all(fraction is None or fraction <= PLAUSIBLE_SHARE for fraction in fractions):
        return numbers("copy_fraction", fractions, "of copy", "share")
    return words("copy_fraction", ["" if each is None else copy_share([each]) for each in fractions], "of copy")


def _flags(rows: Sequence[Row]) -> str:
    raised = Counter(flag for row in rows for flag in row.flags)
    return ", ".join(f"{count} {flag}" for flag, count in raised.most_common())
