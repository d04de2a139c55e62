"""How many times as fast as each baseline a provider is, the comparisons that are lacking, and why it takes its time.

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
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from kbench.analysis import Analysis, CaseKey
from kbench.judging.answer import BaselineSpeed, CaseSpeed, Gap, GroupSpeed, Profile, Speed
from kbench.launches.kernels_file import read_kernels
from kbench.protocol import OperatorInfo
from kbench.results.case import Case
from kbench.results.environment import read_environment
from kbench.results.row import Row
from kbench.results.vocabulary import Flag, Status
from kbench.why.facts import RowFacts
from kbench.why.reasons import find_reasons

SIZE_GROUPS = 3
"""The cases are sorted by the bytes of their tensors, and divided into so many groups of about as many cases."""


def against(analysis: Analysis, info: OperatorInfo, provider: str, baseline: str) -> BaselineSpeed | None:
    """The provider against a baseline; None if no case has a time of both."""
    keys = [key for key, timed in analysis.cases.items() if provider in timed and baseline in timed]
    if not keys:
        return None
    cases = {key.case: _speed(analysis, key, provider, baseline) for key in keys}
    by_speed = sorted(cases.values(), key=lambda case: case.speedup)
    return BaselineSpeed(
        baseline=baseline,
        **dict(_mean(by_speed)),
        outcomes=Counter(case.outcome for case in by_speed),
        worst=by_speed[0],
        best=by_speed[-1],
        groups=_groups(cases, info),
    )


def _speed(analysis: Analysis, key: CaseKey, provider: str, baseline: str) -> CaseSpeed:
    """The interval covers the scatter of the rounds, and what two measurements of the same code differ by in this case."""
    pair = analysis.compare_pair(key, baseline, provider)
    speedup = 1 / pair.ratio
    half = math.exp(max(pair.half_width, analysis.noise.pairs.get(key, analysis.noise.proof)))
    interval = (speedup / half, speedup * half)
    return CaseSpeed(case=key.case.label, speedup=speedup, interval=interval, outcome=pair.outcome)


def _mean(cases: Sequence[CaseSpeed]) -> Speed:
    """The geometric mean over some cases, at least one, with its interval. All cases are from the same sessions, and what
    differs between sessions may shift all of them alike. So the interval of the mean is as wide as theirs on average: more
    cases do not narrow it."""
    mean = math.fsum(math.log(case.speedup) for case in cases) / len(cases)
    half = math.fsum(math.log(case.interval[1] / case.speedup) for case in cases) / len(cases)
    return Speed(speedup=math.exp(mean), interval=(math.exp(mean - half), math.exp(mean + half)))


def _groups(cases: Mapping[Case, CaseSpeed], info: OperatorInfo) -> list[GroupSpeed]:
    """The cases by each of their dtype, scalars, choices and mode that some share, and by the bytes of their tensors."""
    kinds: list[dict[str, list[CaseSpeed]]] = []
    for name in ("dtype", *info.scalars, *info.choices):
        kind: dict[str, list[CaseSpeed]] = {}
        for case, speed in cases.items():
            kind.setdefault(f"{name}={case.dtype if name == 'dtype' else case.axes[name]}", []).append(speed)
        kinds.append(kind)
    if len({info.tensor_bytes(case) for case in cases}) >= SIZE_GROUPS:
        by_size = sorted(cases, key=info.tensor_bytes)
        ends = [round(len(by_size) * number / SIZE_GROUPS) for number in range(SIZE_GROUPS + 1)]
        parts = [by_size[start:end] for start, end in pairwise(ends)]
        kinds.append(
            {f"up to {info.tensor_bytes(part[-1]) / 1e6:.3g} MB": [cases[case] for case in part] for part in parts}
        )
    return [
        GroupSpeed(group=name, cases=len(members), **dict(_mean(members)))
        for kind in kinds
        if 1 < len(kind) < len(cases)
        for name, members in kind.items()
    ]


def gaps(analysis: Analysis, provider: str, baseline: str, *, named: bool) -> list[Gap]:
    """What the comparison with a baseline lacks, an entry for each reason. `named`: `--baseline` names the baseline."""
    keys = [key for key, timed in analysis.cases.items() if provider in timed]
    lacking = {key.case for key in keys if baseline not in analysis.cases[key]}
    rows: dict[object, list[Row]] = {}
    for row in analysis.rows:
        if row.of_provider and row.configuration_name == baseline and row.case in lacking:
            rows.setdefault(row.case, []).append(row)
    counted = Counter(_why(group) for group in rows.values())
    nowhere = len(lacking) == len(keys)
    if nowhere and not named and not any(_is_fault(status) for status, _ in counted):
        return []
    return [
        Gap(
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
    return row.status, row.shown_reason


def _is_fault(status: Status | Flag) -> bool:
    return status is Flag.SUSPECT or (isinstance(status, Status) and status.failed)


def profile_of(provider: str, rows: Sequence[Row], baselines: Sequence[BaselineSpeed], path: Path) -> Profile | None:
    """The profile of a provider from the rows of the results file at `path`, and from what lies beside it. None if it has no
    time, or no other than suspect ones. Without a baseline, the case in which it takes longest counts."""
    own = [row for row in rows if row.of_provider and row.configuration_name == provider and row.ms]
    own = [row for row in own if Flag.SUSPECT not in row.flags]
    if not own:
        return None
    worst = max(own, key=lambda row: row.ms or 0.0).case.label
    if baselines:
        worst = min(baselines, key=lambda baseline: baseline.speedup).worst.case
    own = [row for row in own if row.case.label == worst]
    of_case = [row for row in rows if row.case.label == worst]
    facts = RowFacts(own, of_case, read_kernels(path), read_environment(path)[0], path)
    kernels = [launch.kernel for launch in facts.call.launches] if facts.call else []
    return Profile(
        case=worst,
        ms=facts.row.ms or 0.0,
        copy_fraction=facts.row.copy_fraction,
        launches=facts.row.kernels,
        registers=max((kernel.registers for kernel in kernels), default=None),
        spilled_bytes=max((kernel.local_bytes for kernel in kernels), default=None),
        causes=find_reasons(facts),
    )
