"""The comparisons that a provider lacks, and the rule for those without which `--min-speedup` cannot pass.

`--min-speedup` asks for a speed-up over each baseline. A speed-up that is not known is not a pass:

- In each case in which the provider has a time, each baseline has a time that can be believed, or it declines the case.
- A baseline that `--baseline` names has such a time in at least one case.
- A baseline of the config that nobody named does not count if it cannot run here, or if it declines every case: a built-in
  config lists more libraries than most machines have.
- At least one baseline must be left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kbench.analysis import Analysis
from kbench.results.row import Row
from kbench.results.vocabulary import CHECKED_REASON, Flag, Role, Status


@dataclass(frozen=True)
class Uncompared:
    """A baseline with which the provider was not compared in some of its timed cases, for one reason.

    status    why the baseline has no time there, or `suspect` if its time cannot be believed
    cases     the number of these cases; 0 if the provider was not timed at all
    required  whether `--min-speedup` cannot pass without the comparison
    """

    baseline: str
    status: Status | Flag
    reason: str
    cases: int
    required: bool


def absent(reasons: Mapping[str, str], cases: int) -> list[Uncompared]:
    """The baselines that somebody named and that cannot run here, with the reason of each."""
    return [Uncompared(name, Status.UNAVAILABLE, reason, cases, True) for name, reason in reasons.items()]


def uncompared(found: Analysis, provider: str, baseline: str, *, named: bool) -> list[Uncompared]:
    """What the comparison with a baseline lacks, an entry for each reason."""
    own = [key for key, timed in found.cases.items() if provider in timed]
    lacking = {key.case for key in own if baseline not in found.cases[key]}
    rows: dict[object, list[Row]] = {}
    for row in found.rows:
        if row.role == Role.PROVIDER and row.configuration_name == baseline and row.case in lacking:
            rows.setdefault(row.case, []).append(row)
    counted = Counter(_why(each) for each in rows.values())
    nowhere = len(lacking) == len(own)
    if nowhere and not named and not any(_is_fault(status) for status, _ in counted):
        return []
    return [
        Uncompared(baseline, status, reason, cases, _is_fault(status) or (named and nowhere))
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
