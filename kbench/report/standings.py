"""Who wins, how often and by how much: a line per provider of a file, and the words on how far to trust it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from kbench.plotting.source import Source
from kbench.plotting.winners import Winner, winners
from kbench.report.rows import Json, finite, numbers, words
from kbench.results import PROVIDER, Row, Status
from kbench.summary import SUSPECT, NoiseFloor, by_case, caveats, counts

Group = tuple[Any, ...]


@dataclass(frozen=True)
class Duel:
    """A provider against the baseline on one case: the median speed-up of its sessions, and the noise floor there."""

    dtype: str
    speedup: float
    floor: float

    @property
    def tied(self) -> bool:
        return max(self.speedup, 1 / self.speedup) <= 1 + self.floor


def standings(source: Source, rows: Sequence[Row]) -> Json:
    """The standing of a file's providers, the winner of each of its cases, and what to know about them. `rows` are all."""
    members = [row for row in rows if row.role == PROVIDER]
    floor, won, baseline = NoiseFloor.of(rows), winners(source), _baseline(source, members)
    everyone = list(dict.fromkeys(row.curve for row in members))
    dtypes = list(dict.fromkeys(row.case.dtype for row in members))
    duels = _duels(members, baseline, floor)
    ranked = sorted(everyone, key=lambda curve: -(_geomean(duels[curve]) or 0.0))
    cases = len({row.case.key for row in members})
    return {
        "file": source.label,
        "path": str(source.path),
        "operators": list(dict.fromkeys(row.case.operator for row in members)),
        "dtypes": dtypes,
        "cases": cases,
        "providers": len(everyone),
        "sessions": len({row.session for row in rows}),
        "devices": _seen(row.device for row in members),
        "dates": sorted({row.started_at[:10] for row in members if row.started_at}),
        "counts": counts(rows),
        "headline": _headline(won, cases, baseline, duels, floor),
        "caveats": [*caveats(rows), *source.frame.attrs["warnings"]],
        "baseline": baseline,
        "table": _table(ranked, members, won, duels, dtypes, baseline, floor),
        "winners": _winners(won, list(won[0].case.axes) if won else []),
    }


def _seen(names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name})


def _baseline(source: Source, rows: Sequence[Row]) -> str | None:
    """The curve that speed-ups are over: the environment file says so, else it is the one whose own is always 1."""
    stated = source.environment.get("baseline")
    if isinstance(stated, str) and any(row.curve == stated for row in rows):
        return stated
    factors: dict[str, set[float]] = {}
    for row in rows:
        if row.speedup is not None:
            factors.setdefault(row.curve, set()).add(row.speedup)
    return next((curve for curve, seen in factors.items() if seen == {1.0}), None)


def _duels(rows: Sequence[Row], baseline: str | None, floor: NoiseFloor) -> dict[str, list[Duel]]:
    """Of every provider. Only of cases on which neither side is suspect: such times are in no mean."""
    sessions: dict[Group, list[Row]] = {}
    of_baseline: dict[Group, list[Row]] = {}
    for members in by_case(rows).values():
        if any(row.curve == baseline and SUSPECT in row.flags for row in members):
            continue
        for row in members:
            if row.speedup and SUSPECT not in row.flags:
                how = (row.case.key, row.device, row.timer, row.cache)
                sessions.setdefault((row.curve, *how), []).append(row)
                if row.curve == baseline:
                    of_baseline.setdefault(how, []).append(row)
    duels: dict[str, list[Duel]] = {row.curve: [] for row in rows}
    for (curve, *same), found in sessions.items():
        speedup = median(row.speedup or math.nan for row in found)
        duels[curve].append(Duel(found[0].case.dtype, speedup, floor.between(found, of_baseline.get(tuple(same), []))))
    return duels


def _geomean(duels: Sequence[Duel]) -> float | None:
    return math.exp(fmean(math.log(duel.speedup) for duel in duels)) if duels else None


def _table(
    curves: Sequence[str],
    rows: Sequence[Row],
    won: Sequence[Winner],
    duels: dict[str, list[Duel]],
    dtypes: Sequence[str],
    baseline: str | None,
    floor: NoiseFloor,
) -> Json:
    sole = Counter(winner.curve for winner in won if not winner.tied)
    shared = Counter(curve for winner in won if winner.tied for curve in (winner.curve, *winner.tied))
    of = {curve: [row for row in rows if row.curve == curve] for curve in curves}
    timed = {curve: {row.case.key for row in of[curve] if row.status is Status.OK} for curve in curves}
    columns = [words("curve", curves, "provider")]
    if baseline is None:
        columns.append(numbers("timed", (len(timed[curve]) for curve in curves), "cases", "whole"))
    else:
        over = {curve: [] if curve == baseline else duels[curve] for curve in curves}
        columns += [
            numbers("geomean", (_geomean(duels[curve]) for curve in curves), "speed-up (geomean)", "factor"),
            words("standing", (_standing(curve, over[curve], baseline, floor) for curve in curves), "that is"),
            numbers("timed", (len(duels[curve]) for curve in curves), "cases", "whole"),
            words("record", (_record(over[curve]) for curve in curves), "faster / tie / slower"),
        ]
    columns += [
        numbers("sole", (sole[curve] for curve in curves), "fastest", "whole"),
        numbers("shared", (shared[curve] for curve in curves), "tied for it", "whole"),
    ]
    for dtype in dtypes if baseline is not None and len(dtypes) > 1 else ():
        part = (_geomean([duel for duel in duels[curve] if duel.dtype == dtype]) for curve in curves)
        columns.append(numbers(f"geomean {dtype}", part, f"{dtype} (geomean)", "factor"))
    columns += [
        numbers("roofline", (_median(row.roofline for row in of[curve]) for curve in curves), "of copy", "share"),
        numbers("ulp", (_most(row.max_ulp for row in of[curve]) for curve in curves), "max ulp", "ulp"),
        words("flags", (_flags(of[curve]) for curve in curves)),
    ]
    return {"count": len(curves), "columns": columns}


def _standing(curve: str, duels: Sequence[Duel], baseline: str, floor: NoiseFloor) -> str:
    """In words, so that nobody has to know the noise floor by heart."""
    mean = _geomean(duels)
    if curve == baseline:
        return "the baseline"
    if mean is None:
        return "not known"
    if Duel("", mean, floor.usual).tied:
        return "a tie"
    return "faster" if mean > 1 else "slower"


def _record(duels: Sequence[Duel]) -> str:
    tied = sum(duel.tied for duel in duels)
    faster = sum(duel.speedup > 1 and not duel.tied for duel in duels)
    return f"{faster} / {tied} / {len(duels) - faster - tied}" if duels else ""


def _headline(
    won: Sequence[Winner], cases: int, baseline: str | None, duels: dict[str, list[Duel]], floor: NoiseFloor
) -> str:
    """`quack is fastest in 20 of 48 cases and tied for it in 9 more; its speed-up over torch-native is 1.31x ...`"""
    if not won:
        return "No provider was timed: the reasons are below."
    ahead = Counter(curve for winner in won for curve in (winner.curve, *winner.tied))
    sole = Counter(winner.curve for winner in won if not winner.tied)
    best = max(ahead, key=lambda curve: (ahead[curve], sole[curve]))
    tied = ahead[best] - sole[best]
    text = f"{best} is fastest in {sole[best]} of {_cases(cases)}"
    text += f" and tied for it in {tied}{' more' if sole[best] else ''}" if tied else ""
    mean = _geomean(duels[best])
    if baseline and best != baseline and mean is not None:
        tie = ", a tie" if Duel("", mean, floor.usual).tied else ""
        text += f"; its speed-up over {baseline} is {mean:.2f}x{tie} (geomean of {_cases(len(duels[best]))})"
    return f"{text}."


def _winners(won: Sequence[Winner], axes: Sequence[str]) -> Json:
    """The winner of every case, its margin over the runner-up, and whom it is tied with."""
    margins = [finite(winner.margin) for winner in won]
    columns = [
        *(words(name, (winner.case.axes[name] for winner in won)) for name in axes),
        words("dtype", (winner.case.dtype for winner in won)),
        words("fastest", (winner.curve for winner in won)),
        numbers("margin", margins, "runner-up takes", "factor"),
        words("tied", (", ".join(winner.tied) for winner in won), "tied with"),
    ]
    return {"count": len(won), "columns": columns}


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _flags(rows: Sequence[Row]) -> str:
    raised = Counter(flag for row in rows for flag in row.flags)
    return ", ".join(f"{count} {flag}" for flag, count in raised.most_common())


def _cases(count: int) -> str:
    return f"{count} case{'s' * (count != 1)}"
