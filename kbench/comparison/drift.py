"""How the machine changed between two files, measured by code that is the same in both.

Two kinds of rows are controls: the `copy` of every case, and the baseline of every case if its code is the same. A kernel may
follow the clock of the device more, or less, than the controls do. So the drift explains more than their own changes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Annotated, NamedTuple

from pydantic import Field, computed_field

from kbench.analysis import Analysis
from kbench.analysis.cases import timed
from kbench.comparison.join import CONDITIONS, CaseId, case_id, exported
from kbench.results.row import Row
from kbench.results.vocabulary import Control, Role

ENOUGH_CASES = 5
"""The drift is subtracted from the rows if this many cases have a control. The controls of a few cases may be noisier than the
rows."""

ONE_KIND = 1.5
"""The drift explains this many times as much if there is one kind of control. Nothing then shows how far a kernel and a copy
can be apart."""

SHARE_OF_CONTROLS = 0.5
"""A session counts for the drift if it has at least this share of the controls of the session with the most controls."""

TO_DEVIATION = 1.4826
"""The standard deviation of a normal distribution, divided by its median absolute deviation."""

SessionShifts = dict[int, float]
"""Log times by the number of the session."""

ControlTimes = dict[tuple[int, int], float]
"""Log times by side (0 is the old one) and session."""


class ControlKey(NamedTuple):
    """The identity of a control without its session. `code` is equal on both sides if the code is the same."""

    case: CaseId
    kind: str
    conditions: tuple[str, ...] = ()
    code: tuple[str, ...] = ()


@exported
@dataclass(frozen=True)
class Drift:
    """How much slower or faster the machine became, measured by the copy controls and the unchanged baseline of both files."""

    old: Annotated[SessionShifts, Field(exclude=True)] = field(default_factory=dict)
    """How far the times of the controls of each session are from their mean over all sessions, in log time by the number of
    the session: the median over the cases, and the mean over the kinds of controls."""
    new: Annotated[SessionShifts, Field(exclude=True)] = field(default_factory=dict)
    """The same for the new side."""
    controls: dict[str, float] = field(default_factory=dict)
    """For each kind of control, how much slower it became, in log time."""
    cases: int = 0
    """The number of cases that have a control."""
    noise: float = 0.0
    """The noise floor, as a share: in 95 % of the cases of a run, two measurements of the baseline differ by at most this.
    It is the larger floor of the two files."""
    scatter: float = 0.0
    """The standard deviation of the changes of the controls around those of their kind, in log time."""
    own: Annotated[dict[CaseId, float], Field(exclude=True)] = field(default_factory=dict)
    """For each case, how far the change of its controls is from that of their kind, in log time."""
    incomplete: Annotated[tuple[SessionShifts, SessionShifts], Field(exclude=True)] = ({}, {})
    """The same as `old` and `new`, for sessions that measured few of the cases. It corrects the rows of these sessions, but
    `change` does not include it."""

    @property
    def change(self) -> float | None:
        """How much slower the machine became, in log time; None if the files have no control in common."""
        return fmean(self.controls.values()) if self.controls else None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def ratio(self) -> float | None:
        """The time of a control on the new side, divided by its time on the old side. Null if the files have no control in
        common."""
        return None if self.change is None else math.exp(self.change)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def subtracted(self) -> bool:
        """Whether enough cases have controls to subtract the drift from the rows. A metric that is a ratio to a control of the
        same run has no drift."""
        return self.cases >= ENOUGH_CASES

    @property
    def shifts(self) -> tuple[SessionShifts, SessionShifts]:
        """The drift to subtract from the rows of each session, for both sides; empty if there are too few controls."""
        return (self.old | self.incomplete[0], self.new | self.incomplete[1]) if self.subtracted else ({}, {})

    @property
    def explains(self) -> tuple[float, float]:
        """The changes of rows, in log time, that may come from the drift: from the lowest to the highest.

        A kernel may have drifted by more or by less than each kind of control: by as much as the kind that drifted most.
        """
        if self.change is None:
            return 0.0, 0.0
        changes, taken = self.controls.values(), self.change if self.subtracted else 0.0
        apart = max(map(abs, changes)) * (1.0 if len(changes) > 1 else ONE_KIND)
        return min(changes) - apart - taken, max(changes) + apart - taken


def drifts_by_device(old: Analysis, new: Analysis, axes: Sequence[str], vary: Collection[str] = ()) -> dict[str, Drift]:
    """The drift between the rows of two files, over the controls that both have: for each device if `device` is one of the
    axes that identify a case, otherwise for the device "".

    Controls with another definition of the case are paired if `vary` has `case_hash`. Another device, timer or cache changes
    the controls themselves: that is no drift, even if it is in `vary`.
    """
    noise = max(old.noise.floor or 0.0, new.noise.floor or 0.0)
    baseline = old.baseline if old.baseline == new.baseline else None
    conditions = [name for name in CONDITIONS if name not in axes]
    if "case_hash" in vary:
        conditions.remove("case_hash")
    if "device" not in axes:
        return {"": _between(old.rows, new.rows, axes, conditions, noise, baseline)}
    drifts = {}
    for device in sorted({row.device for row in old.rows} & {row.device for row in new.rows}):
        of_old, of_new = ([row for row in side.rows if row.device == device] for side in (old, new))
        drifts[device] = _between(of_old, of_new, axes, conditions, noise, baseline)
    return drifts or {"": Drift(noise=noise)}


def drift_of(case: CaseId, drifts: Mapping[str, Drift]) -> Drift:
    """The drift of the device that a case was measured on."""
    return drifts[str(dict(case[1]).get("device", ""))]


def _between(
    old: Sequence[Row],
    new: Sequence[Row],
    axes: Sequence[str],
    conditions: Sequence[str],
    noise: float,
    baseline: str | None,
) -> Drift:
    """`conditions` are the columns that must be equal on both sides. `baseline` is the configuration that the speed-ups of both
    files refer to; None if they refer to different ones."""
    times: dict[ControlKey, ControlTimes] = {}
    for side, rows in enumerate((old, new)):
        for key, row in _controls(rows, axes, conditions, baseline):
            times.setdefault(key, {})[side, row.session] = math.log(row.ms or math.nan)
    return estimate_drift(times, noise)


def _controls(
    rows: Sequence[Row], axes: Sequence[str], conditions: Sequence[str], baseline: str | None
) -> Iterator[tuple[ControlKey, Row]]:
    """The rows of controls that have a time. If only the baseline was measured, its change is what the user looks for."""
    rows = [row for row in rows if timed(row)]
    alone = all(row.configuration_name == baseline for row in rows if row.role == Role.PROVIDER)
    for row in rows:
        code: tuple[str, ...] = ()
        if row.role == Role.CONTROL and row.provider == Control.COPY:
            kind = "copy control"
        elif row.role == Role.PROVIDER and row.configuration_name == baseline and row.source_hash and not alone:
            kind, code = f"unchanged {baseline}", (row.source_hash, row.env_id, row.code)
        else:
            continue
        values = tuple(str(getattr(row, name)) for name in conditions)
        yield ControlKey(case_id(row, axes), kind, values, code), row


def estimate_drift(times: dict[ControlKey, ControlTimes], noise: float = 0.0) -> Drift:
    """The drift that controls show. Those that only one side has do not count, nor do those that lack a session: a session that
    was interrupted has few controls, and must not discard those of the others."""
    times = {key: logs for key, logs in times.items() if {side for side, _ in logs} == {0, 1}}
    counts = Counter(session for logs in times.values() for session in logs)
    most = [max((count for (of, _), count in counts.items() if of == side), default=0) for side in (0, 1)]
    whole = {session for session, count in counts.items() if count >= SHARE_OF_CONTROLS * most[session[0]]}
    times = {key: logs for key, logs in times.items() if whole <= logs.keys()}
    if not times:
        return Drift(noise=noise)
    middles = {key: fmean(logs[session] for session in whole) for key, logs in times.items()}
    levels: dict[str, ControlTimes] = {}
    for kind in sorted({key.kind for key in times}):
        moved: dict[tuple[int, int], list[float]] = {}
        for key, logs in times.items():
            for session, log in logs.items() if key.kind == kind else ():
                moved.setdefault(session, []).append(log - middles[key])
        levels[kind] = {session: median(distances) for session, distances in moved.items()}
    shifts: list[tuple[SessionShifts, SessionShifts]] = [({}, {}), ({}, {})]
    for side, number in sorted(counts):
        if logs_of_kinds := [level[side, number] for level in levels.values() if (side, number) in level]:
            shifts[(side, number) not in whole][side][number] = fmean(logs_of_kinds)
    controls = {kind: _change(level, whole) for kind, level in levels.items()}
    apart = {key: abs(_change(logs, whole) - controls[key.kind]) for key, logs in times.items()}
    own: dict[CaseId, float] = {}
    for key, distance in apart.items():
        own[key.case] = max(distance, own.get(key.case, 0.0))
    scatter = TO_DEVIATION * median(apart.values())
    return Drift(*shifts[0], controls, len(own), noise, scatter, own, shifts[1])


def _change(logs: ControlTimes, whole: Collection[tuple[int, int]]) -> float:
    """The mean over the whole sessions of the new side, less that of the old side."""
    old, new = (fmean(logs[session] for session in whole if session[0] == side) for side in (0, 1))
    return new - old
