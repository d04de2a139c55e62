"""Decides the verdict on each pair, and its reason.

M is the margin, the smallest change of interest:

    same     the 95 % interval of the change lies within M, which is stronger than "no difference found"
    slower   the change is certain (q <= ERROR_RATE over all rows of the report), and its interval does not lie within M
    unclear  neither; the reason says what would decide it

`faster` is `slower` with the files swapped. With one session on a side, the scatter of sessions is unknown:
the half-width of the interval is then a floor, and the reason says "1 session". A difference of up to two ticks of the timer is
never a change. All bounds are factors, so swapping the files swaps the verdicts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from kbench.analysis.noise import TOO_NOISY, format_share
from kbench.analysis.standings import weighted_mean
from kbench.comparison import stats
from kbench.comparison.change import Change, changes
from kbench.comparison.drift import Drift
from kbench.comparison.join import Pair, Side
from kbench.comparison.model import Geomean, JudgedRow
from kbench.comparison.options import Rules
from kbench.comparison.verdict import DRIFT_REASON, TOO_NOISY_REASON, Verdict
from kbench.launches.code_change import describe_code_change
from kbench.results.vocabulary import CHECKED_REASON, Status

ERROR_RATE = 0.01
"""The false discovery rate of `slower` and `faster`: one report in a hundred on unchanged code has a false row. With
the usual 0.05, a gate that runs on every push would raise a false alarm every other week."""

MANY_SESSIONS = 30
"""The reason does not recommend more sessions than this."""

Judgement = tuple[Verdict, str]
"""A verdict and its reason."""


def judge_pairs(
    pairs: Sequence[Pair], drifts: Mapping[str, Drift], rules: Rules
) -> tuple[list[JudgedRow], list[Geomean]]:
    """The judged rows of the pairs, in the order of the pairs, and a geometric mean for each contender.

    `drifts` has the drift of the machine for each contender.
    """
    untimed = [_judge_without_times(pair, rules) for pair in pairs]
    sized: dict[int, Change] = {}  # by index in `pairs`
    geomeans = []
    for label in drifts:
        places = [place for place, pair in enumerate(pairs) if pair.contender == label]
        timed = [place for place in places if untimed[place] is None]
        found, interval = changes([pairs[place] for place in timed], drifts[label], rules)
        sized |= dict(zip(timed, found, strict=True))
        weights = [change.pair.weight for change in found]
        mean = None
        if found:
            mean = rules.ratio(weighted_mean([change.effect for change in found], [each or 1.0 for each in weights]))
        geomeans.append(Geomean(label, mean, interval, len(found), len(places), any(weights)))
    tested = [place for place, change in sized.items() if change.p is not None]
    q = dict(zip(tested, stats.discoveries([sized[place].p or 0.0 for place in tested]), strict=True))
    rows = []
    for place, (pair, judgement) in enumerate(zip(pairs, untimed, strict=True)):
        if judgement is not None:
            rows.append(JudgedRow(pair.key, pair.contender, *judgement, pair.old, pair.new))
            continue
        change = sized[place]
        judgement = _judge_change(change, q.get(place), drifts[pair.contender].of(pair.key.case), rules)
        judgement = _with_what_ran(judgement, *pair.sides)
        ratio, ci = rules.ratio(change.effect), rules.interval(change.effect, change.half_width)
        rows.append(JudgedRow(pair.key, pair.contender, *judgement, pair.old, pair.new, ratio, ci, q.get(place)))
    return rows, geomeans


# ---- pairs without comparable times


def _judge_without_times(pair: Pair, rules: Rules) -> Judgement | None:
    """The judgement of a pair whose times cannot be compared; None for a pair whose times can."""
    old, new = pair.old, pair.new
    if old is None or new is None or Status.OK not in (old.status, new.status) or old.status != new.status:
        return _judge_statuses(old, new)
    if unknown := _sides_without(rules.metric, old, new):
        return Verdict.UNTIMED, unknown
    if differing := old.differing_conditions(new, rules.vary):
        return Verdict.INCOMPARABLE, differing
    if old.suspect or new.suspect:
        both = old.suspect and new.suspect
        sides = "both sides have" if both else "the old side has" if old.suspect else "the new side has"
        return Verdict.SUSPECT, f"{sides} an implausible time (kbench explain suspect)"
    return None


def _sides_without(metric: str, old: Side, new: Side) -> str:
    """Which sides have times without the metric: `the new side has no tflops`; "" if every time has it."""
    lacking = {"old": old.timed - len(old.readings), "new": new.timed - len(new.readings)}
    if not (old.readings or new.readings):
        return f"neither side has {metric}"
    return "; ".join(
        f"the {name} side has no {metric}{f' in {count} of {side.timed} sessions' if side.readings else ''}"
        for (name, count), side in zip(lacking.items(), (old, new), strict=True)
        if count
    )


def _judge_statuses(old: Side | None, new: Side | None) -> Judgement:
    """The judgement of a pair in which a side lacks a time in a session. A failure of the new side is `failed` unless
    the old side failed too. It is also `failed` if the new side has no times at all and the old side has some."""
    before, after = _outcome(old), _outcome(new)
    both = after if not before or before == after else f"{before}, now {after}" if after else before
    failed_before = old is not None and old.status.failed and not (old.timed and new and not new.timed)
    if not (old and old.timed) and not (new and (new.timed or new.status.failed)):
        return Verdict.UNTIMED, both
    if new is None:
        return Verdict.MISSING, before
    if new.status.failed:
        return (Verdict.UNTIMED, f"failed on both sides: {both}") if failed_before else (Verdict.FAILED, after)
    if old is None:
        return Verdict.NEW, after
    if new.status is Status.OK:
        return (Verdict.FIXED if failed_before else Verdict.NEW), f"was {before}"
    return Verdict.MISSING, after


def _outcome(side: Side | None) -> str:
    """`wrong: differs at 3 elements`, `crashed (1 of 3 sessions has no time): signal 11`; "" for a side that is ok."""
    if side is None or side.status is Status.OK:
        return ""
    lost = side.sessions - side.timed
    verb = "has" if lost == 1 else "have"
    where = f" ({lost} of {side.sessions} sessions {verb} no time)" if lost < side.sessions else ""
    reason = " ".join(side.reason.split()) or (CHECKED_REASON if side.status is Status.CHECKED else "")
    return f"{side.status.value}{where}" + (f": {reason}" if reason else "")


# ---- pairs with comparable times


def _judge_change(change: Change, q: float | None, drift: Drift, rules: Rules) -> Judgement:
    ticks, asked = math.log1p(2 * change.pair.timer_step), math.log1p(rules.margin)
    margin = max(ticks, asked)
    size = abs(change.effect)
    direction = Verdict.SLOWER if change.effect > 0 else Verdict.FASTER
    shown_same = size + change.half_width <= margin
    note = _few_sessions(change)
    if _one_measurement(change.pair):
        return Verdict.SAME, "both sides are the same measurement"
    if any((reading.samples or math.inf) <= 1 for side in change.pair.sides for reading in side.readings):
        return Verdict.UNCLEAR, "a session has only one sample; raise measure.rep_ms"
    if q is None and drift.noise > TOO_NOISY:
        return Verdict.UNCLEAR, (
            f"{TOO_NOISY_REASON} for 1 session (noise floor {format_share(drift.noise)}); quieten the machine, and add sessions"
        )
    low, high = drift.explains
    half_width = change.half_width * (1 - 1e-9)  # a change of exactly this size counts
    explained = low - half_width <= change.effect <= high + half_width
    drifted = max(-low, high) > asked
    certain = q <= ERROR_RATE if q is not None else size >= half_width
    if (drifted and (explained or shown_same)) or (certain and explained and not shown_same):
        return Verdict.UNCLEAR, _describe_drift(drift, rules)
    if shown_same:
        return Verdict.SAME, note
    if certain and size > ticks:
        return direction, _join(note, _describe_drift(drift, rules)) if drifted else note
    if size <= ticks and ticks > asked:
        return Verdict.UNCLEAR, _join(
            note, "the change is less than two ticks of the clock; on a GPU, timer: graph resolves smaller changes"
        )
    if q is None:
        return Verdict.UNCLEAR, _join(note, "add sessions")
    needed = _sessions_needed(change, margin)
    if needed > MANY_SESSIONS:
        count = f"about {needed}" if needed <= 1000 else "more than 1000"
        return Verdict.UNCLEAR, (
            f"{TOO_NOISY_REASON}: {count} sessions per side would be needed; quieten the machine, or set a wider --margin"
        )
    return Verdict.UNCLEAR, f"noisy: about {needed} sessions per side would settle it"


def _describe_drift(drift: Drift, rules: Rules) -> str:
    """`the machine drifted by +6.6%, which may explain changes from -11.3% to +13.2%`"""
    ends = sorted(rules.ratio(end) - 1 for end in drift.explains)
    explained = f"changes from {ends[0]:+.1%} to {ends[1]:+.1%}"
    return f"{DRIFT_REASON} {math.expm1(drift.change or 0.0):+.1%}, which may explain {explained}"


def _with_what_ran(judgement: Judgement, old: Side, new: Side) -> Judgement:
    """The judgement with what is known of the code that ran, for a reader who asks why a time has changed."""
    verdict, reason = judgement
    changed = verdict in (Verdict.SLOWER, Verdict.FASTER)
    return verdict, _join(reason, describe_code_change(old.ran, new.ran, changed=changed))


def _one_measurement(pair: Pair) -> bool:
    """Whether both sides are the same measurement, as in a file compared with itself. The start times must be equal, too."""
    old, new = pair.sides
    return old.readings == new.readings and all(reading.started_at for reading in old.readings)


def _few_sessions(change: Change) -> str:
    count = change.pair.sessions
    if count > 2:
        return ""
    return (
        "only 2 sessions" if count == 2 else f"1 session: only changes above {math.expm1(change.half_width):.1%} count"
    )


def _join(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _sessions_needed(change: Change, margin: float) -> int:
    """The number of sessions per side that makes the interval half as wide as the margin, if the noise stays the same."""
    return max(change.pair.sessions + 1, math.ceil(2 * (2 * 2.1 * change.sd / margin) ** 2))
