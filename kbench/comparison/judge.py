"""Decides how large the change of each row is, its verdict, and the reasons.

With two or more sessions on each side, `stats` computes the effect and its 95 % interval. With one session, nothing is known
about how sessions differ: the interval is then a fixed floor, or wider where the rounds vary more.

M is the margin, the smallest change of interest, or two ticks of the timer if they are more. For a row whose times can be
compared, the first rule that applies decides:

    same     both sides are the same measurement
    unclear  a session has one sample
    unclear  a side has one session, and the noise floor is above TOO_NOISY
    unclear  the interval of the change lies within M, but the drift of the machine may explain more than the margin
    same     the interval of the change lies within M, which is stronger than "no difference found"
    unclear  the change is certain, but the drift may explain it
    slower   the change is certain and more than two ticks; certain is q <= ERROR_RATE over all rows of the report, or with one
             session a change of at least half the width of the interval
    unclear  otherwise; the reason says what would decide it

`faster` is `slower` with the files swapped. All bounds are factors, so swapping the files swaps the verdicts.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from kbench.analysis.noise import TOO_NOISY
from kbench.analysis.pairwise import uncertainty
from kbench.comparison import stats
from kbench.comparison.model import CompareOptions, Drift, Geomean, JudgedRow, Key, Side
from kbench.comparison.verdict import Cause, Reason, Verdict, because
from kbench.launches.code_change import describe_code_change
from kbench.results.case import Case
from kbench.results.timers import timer_kind
from kbench.results.vocabulary import CHECKED_REASON, Status
from kbench.text.numbers import format_share
from kbench.text.words import plural

ERROR_RATE = 0.01
"""The false discovery rate of `slower` and `faster`: one report in a hundred on unchanged code has a false row. With
the usual 0.05, a gate that runs on every push would raise a false alarm every other week."""

FLOOR = 0.03
"""The smallest change that a single session on a side can show. Sessions of the same code differ by 0.5 to 1 % each, and a
report has many rows."""

T_OF_MANY = 2.1
"""The quantile of Student's t for a 95 % interval with some twenty degrees of freedom, as rows that lend each other their
variance have."""

MANY_SESSIONS = 30
"""The reason does not recommend more sessions than this."""

Judgement = tuple[Verdict, tuple[Reason, ...]]
"""A verdict and its reasons."""


@dataclass(frozen=True)
class Change:
    """The change of a row that has times on both sides, in log time: a positive effect is slower.

    drift       of the device that the row was measured on
    half_width  of its interval
    p, q        the p value of "no change" and the false discovery rate; None where sessions do not give them
    sd          standard deviation between the sessions of one side
    """

    sides: tuple[Side, Side]
    drift: Drift
    effect: float
    half_width: float
    p: float | None = None
    q: float | None = None
    sd: float = 0.0

    @property
    def size(self) -> float:
        return abs(self.effect)

    @property
    def sessions(self) -> int:
        """The number of sessions behind the change."""
        return min(len(side.readings) for side in self.sides)

    @property
    def weight(self) -> float | None:
        """How often the case occurs, as the old side says, or else the new one; None if neither does."""
        return next((side.weight for side in self.sides if side.weight is not None), None)

    @property
    def timer_step(self) -> float:
        """The resolution of the timer as a share of the shortest time; 0 if one of the timers has no steps."""
        steps_ms = [timer_kind(name).resolution_ms for side in self.sides for name in side.conditions["timer"]]
        return min(steps_ms) / min(row.ms or math.inf for side in self.sides for row in side.readings)

    @property
    def ticks(self) -> float:
        """Two ticks of the timer, in log time."""
        return math.log1p(2 * self.timer_step)


def judge_rows(
    sides: Mapping[Key, tuple[Side | None, Side | None]], drifts: Mapping[str, Drift], options: CompareOptions
) -> tuple[list[JudgedRow], Geomean]:
    """The rows with these sides, the old one first, and the geometric mean of their ratios.

    `drifts` has the drift of the machine by device.
    """
    without_times = {key: _judge_without_times(old, new, options) for key, (old, new) in sides.items()}
    changes: dict[Key, Change] = {}
    for key, (old, new) in sides.items():
        if old and new and without_times[key] is None:
            drift = drifts[str(key.case.axes.get("device", ""))]
            changes[key] = _of_one_session(key.case, (old, new), drift, options)
    interval = _estimate(changes, options)
    rows = []
    for key, (old, new) in sides.items():
        if judgement := without_times[key]:
            rows.append(JudgedRow(key, old, new, *judgement))
            continue
        change = changes[key]
        verdict, reasons = _judge_change(change, options)
        ratio, ci = options.ratio(change.effect), options.interval(change.effect, change.half_width)
        ran = (side.ran for side in change.sides)
        if what_ran := describe_code_change(*ran, changed=verdict in (Verdict.SLOWER, Verdict.FASTER)):
            reasons += (because(Cause.CODE, what_ran=what_ran),)
        rows.append(JudgedRow(key, old, new, verdict, reasons, ratio, ci, change.q))
    weights = [change.weight or 1.0 for change in changes.values()]
    effects = [change.effect for change in changes.values()]
    mean = options.ratio(statistics.fmean(effects, weights)) if changes else None
    weighted = any(change.weight for change in changes.values())
    return rows, Geomean(mean, interval, len(changes), len(sides), weighted)


def _of_one_session(case: Case, sides: tuple[Side, Side], drift: Drift, options: CompareOptions) -> Change:
    """A change with one session on a side. The interval is the floor, or wider where the noise is larger, the rounds vary
    more, or the gauges of the same case changed in another way than those of the others."""
    old, new = (statistics.fmean(logs.values()) for logs in _log_times(sides, drift, options))
    floor = max(FLOOR, 2 * drift.noise, math.expm1(2 * drift.own.get(case, 0.0)))
    scatter = math.hypot(*(uncertainty(list(map(math.log, side.readings[0].round_ms))) for side in sides))
    return Change(sides, drift, new - old, max(math.log1p(floor), scatter))


def _estimate(changes: dict[Key, Change], options: CompareOptions) -> tuple[float, float] | None:
    """Replace the changes that have several sessions on both sides by what `stats` says of them. Returns the interval of the
    geometric mean of all changes: None unless all have several sessions."""
    replicated = {key: change for key, change in changes.items() if change.sessions > 1}
    if not replicated:
        return None
    logs = [_log_times(change.sides, change.drift, options) for change in replicated.values()]
    old, new = (_matrix(side) for side in zip(*logs, strict=True))
    effects = stats.estimate_effects(
        old,
        new,
        np.array([change.timer_step for change in replicated.values()]),
        np.array([change.weight or 1.0 for change in replicated.values()]),
        np.array([change.drift.scatter for change in replicated.values()]),
    )
    q = stats.discoveries(effects.p)
    columns = effects.effect, effects.half_width, effects.p, q, effects.sd
    for (key, change), *numbers in zip(replicated.items(), *columns, strict=True):
        changes[key] = Change(change.sides, change.drift, *map(float, numbers))
    return options.interval(effects.mean, effects.mean_half_width) if len(replicated) == len(changes) else None


def _log_times(sides: tuple[Side, Side], drift: Drift, options: CompareOptions) -> list[dict[int, float]]:
    """Log times of both sides by session, less the machine's drift if the metric contains it."""
    shifts = drift.shifts if drift.subtracted and options.compared.drifts else {}
    log_time = options.compared.log_time
    return [
        {session: log_time(value) - shifts.get((number, session), 0.0) for session, value in side.values.items()}
        for number, side in enumerate(sides)
    ]


def _matrix(rows: Iterable[dict[int, float]]) -> stats.Array:
    """Log times of shape (rows, sessions), NaN where a row lacks a session."""
    rows = list(rows)
    sessions = sorted({session for row in rows for session in row})
    return np.array([[row.get(session, math.nan) for session in sessions] for row in rows])


def _judge_without_times(old: Side | None, new: Side | None, options: CompareOptions) -> Judgement | None:
    """The judgement of a row whose times cannot be compared; None for a row whose times can."""
    if old is None or new is None or old.status is not Status.OK or new.status is not Status.OK:
        verdict, reason = _judge_statuses(old, new)
        return verdict, (reason,)
    lacking = [
        because(Cause.NO_METRIC, side=name, metric=options.metric, lacking=count, timed=plural(side.timed, "session"))
        for name, side in (("old", old), ("new", new))
        if (count := side.timed - len(side.readings))
    ]
    if lacking:
        return Verdict.UNTIMED, tuple(lacking)
    if differing := old.differing_conditions(new, options.vary):
        return Verdict.INCOMPARABLE, (because(Cause.OTHER_CONDITIONS, conditions=", ".join(differing.values())),)
    if old.suspect or new.suspect:
        who = "the old side has" if old.suspect else "the new side has"
        if old.suspect and new.suspect:
            who = "both sides have"
        return Verdict.SUSPECT, (because(Cause.IMPLAUSIBLE, who=who),)
    return None


def _judge_statuses(old: Side | None, new: Side | None) -> tuple[Verdict, Reason]:
    """The judgement of a row in which a side lacks a time in a session. A failure of the new side is `failed` unless
    the old side failed too. It is also `failed` if the new side has no times at all and the old side has some. What was
    checked without a time, as on a host, and is not checked any more, is `missing` too."""
    earlier, now = _outcome(old), _outcome(new)
    both = now or earlier
    if earlier and now and earlier != now:
        both = f"{earlier}, now {now}"
    had_times, has_times = (side is not None and side.timed > 0 for side in (old, new))
    failed_earlier = old is not None and old.status.failed
    if new and new.status is Status.OK:
        verdict = Verdict.FIXED if failed_earlier else Verdict.NEW
        return verdict, because(Cause.EARLIER_STATUS if earlier else Cause.STATUS, outcome=earlier)
    if new and new.status.failed:
        if failed_earlier and (has_times or not had_times):
            return Verdict.UNTIMED, because(Cause.FAILED_ON_BOTH_SIDES, outcome=both)
        return Verdict.FAILED, because(Cause.STATUS, outcome=now)
    was_checked, is_checked = (side is not None and side.status is Status.CHECKED for side in (old, new))
    if had_times or (was_checked and not is_checked):
        return Verdict.MISSING, because(Cause.STATUS, outcome=now or (earlier if had_times else ""))
    return Verdict.UNTIMED, because(Cause.STATUS, outcome=both)


def _outcome(side: Side | None) -> str:
    """`wrong: differs at 3 elements`, `crashed (1 of 3 sessions has no time): signal 11`; "" for a side that is ok."""
    if side is None or side.status is Status.OK:
        return ""
    lost = side.sessions - side.timed
    verb = "has" if lost == 1 else "have"
    where = f" ({lost} of {side.sessions} sessions {verb} no time)" if lost < side.sessions else ""
    reason = " ".join(side.reason.split()) or (CHECKED_REASON if side.status is Status.CHECKED else "")
    return f"{side.status.value}{where}" + (f": {reason}" if reason else "")


def _judge_change(change: Change, options: CompareOptions) -> Judgement:
    """The rules in the order that this module begins with."""
    drift, q, margin = change.drift, change.q, math.log1p(options.margin)
    old, new = change.sides
    if old.readings == new.readings and all(row.started_at for row in old.readings):
        return Verdict.SAME, (because(Cause.ONE_MEASUREMENT),)
    if any((row.samples or math.inf) <= 1 for row in (*old.readings, *new.readings)):
        return Verdict.UNCLEAR, (because(Cause.ONE_SAMPLE),)
    if q is None and drift.noise > TOO_NOISY:
        return Verdict.UNCLEAR, (because(Cause.NOISY_MACHINE, noise_floor=format_share(drift.noise)),)
    few_sessions, (low, high) = _few_sessions(change), drift.explains
    lowest, highest = sorted(options.ratio(end) - 1 for end in (low, high))
    drift_reason = because(Cause.DRIFT, drift=math.expm1(drift.change or 0.0), low=lowest, high=highest)
    drifted = max(-low, high) > margin
    if change.size + change.half_width <= max(change.ticks, margin):
        return (Verdict.UNCLEAR, (drift_reason,)) if drifted else (Verdict.SAME, few_sessions)
    half_width = change.half_width * (1 - 1e-9)  # a change of exactly this size counts
    certain = q <= ERROR_RATE if q is not None else change.size >= half_width
    explained = certain and low - half_width <= change.effect <= high + half_width
    if certain and not explained and change.size > change.ticks:
        return Verdict.SLOWER if change.effect > 0 else Verdict.FASTER, few_sessions
    by_drift = explained or (drifted and low <= change.effect <= high)
    if by_drift and (certain or change.half_width <= max(-low, high)):
        return Verdict.UNCLEAR, (drift_reason,)
    decides = _what_would_decide(change, margin)
    return Verdict.UNCLEAR, (*decides, drift_reason) if by_drift else decides


def _what_would_decide(change: Change, margin: float) -> tuple[Reason, ...]:
    """The reasons of a row that is unclear because too little was measured. `margin` is in log time."""
    if change.size <= change.ticks and change.ticks > margin:
        return *_few_sessions(change), because(Cause.BELOW_TWO_TICKS)
    if change.q is None:
        return *_few_sessions(change), because(Cause.ADD_SESSIONS)
    low, high = change.drift.explains
    if change.p and change.size - change.half_width > max(margin, change.ticks, high if change.effect > 0 else -low):
        # The normal score of p grows as the root of the sessions. q falls as p does if the other rows stay as they are.
        growth = _score(change.p * ERROR_RATE / change.q) / _score(change.p)
        enough = max(change.sessions + 1, math.ceil(change.sessions * growth**2))
        return (because(Cause.PROBABLE, direction="slower" if change.effect > 0 else "faster", sessions=enough),)
    # With n sessions a side, half the width of the interval is T_OF_MANY times sd times the root of 2 / n, if the noise stays
    # the same. With `needed` sessions it is half of the margin.
    sessions = 2 * (2 * T_OF_MANY * change.sd / max(change.ticks, margin)) ** 2
    needed = max(change.sessions + 1, math.ceil(sessions))
    if needed > MANY_SESSIONS:
        # one digit
        many = f"about {round(needed, 1 - len(str(needed)))}" if needed <= 1000 else "more than 1000"
        return (because(Cause.TOO_NOISY, sessions=many),)
    return (because(Cause.NOISY, sessions=needed),)


def _score(p: float) -> float:
    """The normal score that has this two-sided p value."""
    return statistics.NormalDist().inv_cdf(1 - p / 2)


def _few_sessions(change: Change) -> tuple[Reason, ...]:
    count = change.sessions
    if count > 2:
        return ()
    if count == 2:
        return (because(Cause.TWO_SESSIONS),)
    return (because(Cause.ONE_SESSION, smallest=math.expm1(change.half_width)),)
