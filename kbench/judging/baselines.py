"""How many times as fast as each baseline a provider is, and the comparisons that are lacking.

`--min-speedup` asks for a speed-up over each baseline. A speed-up that is not known is not a pass:

- In each case in which the provider has a time, each baseline has a time that can be believed, or it declines the case.
- A baseline that `--baseline` names has such a time in at least one case.
- A baseline of the config that nobody named does not count if it cannot run here, or if it declines every case: a built-in
  config lists more libraries than most machines have.
- At least one baseline must be left.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from kbench.analysis import Analysis, CaseKey
from kbench.judging.verdict import JudgedBaseline, JudgedCase, JudgedGap
from kbench.results.row import Row
from kbench.results.vocabulary import CHECKED_REASON, Flag, Role, Status


def against(analysis: Analysis, provider: str, baseline: str) -> JudgedBaseline | None:
    """The provider against a baseline; None if no case has a time of both."""
    keys = [key for key, timed in analysis.cases.items() if provider in timed and baseline in timed]
    return mean_speed(baseline, [_speed(analysis, key, provider, baseline) for key in keys]) if keys else None


def _speed(analysis: Analysis, key: CaseKey, provider: str, baseline: str) -> JudgedCase:
    """The interval covers the scatter of the rounds, and what two measurements of the same code differ by in this case."""
    pair = analysis.compare_pair(key, baseline, provider)
    speedup = 1 / pair.ratio
    half = math.exp(max(pair.half_width, analysis.noise.pairs.get(key, analysis.noise.proof)))
    label = analysis.cases[key][provider][0].case.label
    return JudgedCase(case=label, speedup=speedup, interval=(speedup / half, speedup * half), outcome=pair.outcome)


def mean_speed(baseline: str, cases: Sequence[JudgedCase]) -> JudgedBaseline:
    """The geometric mean over some cases, at least one. All cases are from the same sessions, and what differs between sessions
    may shift all of them alike. So the interval of the mean is as wide as theirs on average: more cases do not narrow it."""
    mean = math.fsum(math.log(case.speedup) for case in cases) / len(cases)
    half = math.fsum(math.log(case.interval[1] / case.speedup) for case in cases) / len(cases)
    interval = (math.exp(mean - half), math.exp(mean + half))
    return JudgedBaseline(baseline=baseline, speedup=math.exp(mean), interval=interval, cases=list(cases))


def gaps(analysis: Analysis, provider: str, baseline: str, *, named: bool) -> list[JudgedGap]:
    """What the comparison with a baseline lacks, an entry for each reason. `named`: `--baseline` names the baseline."""
    keys = [key for key, timed in analysis.cases.items() if provider in timed]
    lacking = {key.case for key in keys if baseline not in analysis.cases[key]}
    rows: dict[object, list[Row]] = {}
    for row in analysis.rows:
        if row.role == Role.PROVIDER and row.configuration_name == baseline and row.case in lacking:
            rows.setdefault(row.case, []).append(row)
    counted = Counter(_why(group) for group in rows.values())
    nowhere = len(lacking) == len(keys)
    if nowhere and not named and not any(_is_fault(status) for status, _ in counted):
        return []
    return [
        JudgedGap(
            baseline=baseline,
            status=status,
            reason=reason,
            cases=cases,
            required=_is_fault(status) or (named and nowhere),
        )
        for (status, reason), cases in counted.items()
    ]


def _why(rows: Sequence[Row]) -> tuple[Status | Flag, str]:
    """Why a baseline has no time that counts, from its rows in a case: the first fault, if there is one."""
    for row in rows:
        if Flag.SUSPECT in row.flags:
            return Flag.SUSPECT, row.reason or "its time is shorter than it can be"
    row = next((row for row in rows if row.status.failed), rows[0])
    return row.status, row.reason or (CHECKED_REASON if row.status is Status.CHECKED else "")


def _is_fault(status: Status | Flag) -> bool:
    return status is Flag.SUSPECT or (isinstance(status, Status) and status.failed)
