"""What a pair of measurements says, in one word and a reason.

The question has two answers and a refusal. With M the margin, the smallest change anyone cares about:

    same     the 95 % interval of the change lies within M: shown, not merely "no difference found"
    slower   the change is certain (q <= ERROR_RATE over all rows of the report), and it is not shown to be less than M
    unclear  neither; the reason says what would settle it

`faster` is `slower` with the files swapped. With one session on a side nothing is known of how sessions differ: the interval
is then a stated floor, and the reason says "1 session". Two ticks of the event clock are never a change. All bounds are
factors, so that swapping the files swaps the words.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from kbench.analysis import Duel, Noise, Outcome
from kbench.comparison import stats
from kbench.comparison.change import Change, Rules, changes, sides_of, tick, trials
from kbench.comparison.drift import Drift
from kbench.comparison.join import Key, Pair, Side
from kbench.results.row import Status

WORDS = (
    "slower", "failed", "missing", "suspect", "faster", "fixed", "new", "incomparable", "unclear", "same", "untimed",
)  # fmt: skip
"""All verdicts, those that want attention first."""

ERROR_RATE = 0.01
"""The false discovery rate of `slower` and `faster`: of a hundred reports on unchanged code, one holds a false row. A gate
that is run on every push at the customary 0.05 cries wolf every other week."""

MANY_SESSIONS = 30
"""More than anyone would run."""


@dataclass(frozen=True)
class Verdict:
    """One row of a comparison.

    `ratio` is the new value over the old (ms: 2.0 is twice as slow; gbps: twice as fast), `ci` its 95 % interval, `q` the
    false discovery rate of a report that calls this row changed; None where none can be stated. The machine's drift, where
    it is known, is taken out of `ratio` and not out of the sides' own values.
    """

    key: Key
    contender: str
    word: str
    reason: str = ""
    old: Side | None = None
    new: Side | None = None
    ratio: float | None = None
    ci: tuple[float, float] | None = None
    q: float | None = None


@dataclass(frozen=True)
class Geomean:
    """The geometric mean of the ratios of a contender, over the rows that have one; its interval where sessions allow."""

    contender: str
    ratio: float | None
    ci: tuple[float, float] | None
    rows: int
    total: int


def judge(
    pairs: Sequence[Pair], drifts: Mapping[str, Drift], rules: Rules, noise: Noise | None = None
) -> tuple[list[Verdict], list[Geomean]]:
    """The verdicts on pairs, in their order, and a geometric mean per contender.

    `drifts` has the machine's drift for every contender; `noise` is that of the file whose providers are compared.
    """
    words = [_without_times(pair, rules) for pair in pairs]
    sized: dict[int, Change] = {}  # by place in `pairs`
    geomeans = []
    for label in drifts:
        places = [place for place, pair in enumerate(pairs) if pair.contender == label]
        timed = [place for place in places if words[place] is None]
        found, interval = changes([pairs[place] for place in timed], drifts[label], rules, noise)
        sized |= dict(zip(timed, found, strict=True))
        mean = rules.ratio(statistics.fmean(change.effect for change in found)) if found else None
        geomeans.append(Geomean(label, mean, interval, len(found), len(places)))
    tested = [place for place, change in sized.items() if change.p is not None]
    q = dict(zip(tested, stats.discoveries([sized[place].p or 0.0 for place in tested]), strict=True))
    verdicts = []
    for place, (pair, word) in enumerate(zip(pairs, words, strict=True)):
        if word is not None:
            verdicts.append(Verdict(pair.key, pair.contender, *word, pair.old, pair.new))
            continue
        change = sized[place]
        word = _judge(change, q.get(place), drifts[pair.contender].of(pair.key.case), rules)
        ratio, ci = rules.ratio(change.effect), rules.interval(change.effect, change.half_width)
        verdicts.append(Verdict(pair.key, pair.contender, *word, pair.old, pair.new, ratio, ci, q.get(place)))
    return verdicts, geomeans


# ---- pairs without two times


def _without_times(pair: Pair, rules: Rules) -> tuple[str, str] | None:
    """The word and reason of a pair that cannot be told apart by its times; None for one that can."""
    old, new = pair.old, pair.new
    if old is None or new is None or Status.OK not in (old.status, new.status) or old.status != new.status:
        return _judge_statuses(old, new)
    if other := differing(old, new, rules.vary):
        return "incomparable", other
    if rules.paired and not trials(pair, rules):
        return "incomparable", "no session has both"
    if old.suspect or new.suspect:
        sides = "both sides" if old.suspect and new.suspect else "the old side" if old.suspect else "the new side"
        return "suspect", f"{sides} faster than memory can be (kbench explain suspect)"
    return None


def _judge_statuses(old: Side | None, new: Side | None) -> tuple[str, str]:
    """At least one side lacks a time in some session. A failure is `failed` unless there was one before that left as
    little."""
    before, after = _outcome(old), _outcome(new)
    both = after if not before or before == after else f"{before}, now {after}" if after else before
    failed_before = old is not None and old.status.failed and not (old.readings and new and not new.readings)
    if not (old and old.readings) and not (new and (new.readings or new.status.failed)):
        return "untimed", both
    if new is None:
        return "missing", before
    if new.status.failed:
        return ("untimed", f"failed in both: {both}") if failed_before else ("failed", after)
    if old is None:
        return "new", after
    if new.status is Status.OK:
        return ("fixed" if failed_before else "new"), f"was {before}"
    return "missing", after


def _outcome(side: Side | None) -> str:
    """`wrong: differs at 3 elements`, `crashed (1 of 3 sessions has no time): signal 11`; "" for an ok side."""
    if side is None or side.status is Status.OK:
        return ""
    lost = side.sessions - len(side.readings)
    verb = "has" if lost == 1 else "have"
    where = f" ({lost} of {side.sessions} sessions {verb} no time)" if lost < side.sessions else ""
    return f"{side.status.value}{where}" + (f": {' '.join(side.reason.split())}" if side.reason else "")


def differing(old: Side, new: Side, vary: Collection[str]) -> str:
    """The conditions under which the two sides were measured, where they are not one and the same."""
    return ", ".join(
        f"{name} {'/'.join(old.conditions[name]) or 'unknown'} -> {'/'.join(new.conditions[name]) or 'unknown'}"
        for name in old.conditions
        if name not in vary and (old.conditions[name] != new.conditions[name] or len(old.conditions[name]) != 1)
    )


# ---- pairs with two times


def _judge(change: Change, q: float | None, drift: Drift, rules: Rules) -> tuple[str, str]:
    if change.duel is not None:
        return _judge_providers(change, change.duel, rules)
    ticks, asked = math.log1p(2 * tick(change.pair)), math.log1p(rules.margin)
    margin = max(ticks, asked)
    size = abs(change.effect)
    direction = "slower" if change.effect > 0 else "faster"
    shown_same = size + change.half_width <= margin
    note = _few_sessions(change, rules)
    if _one_measurement(change.pair):
        return "same", "the very same readings"
    if any((reading.samples or math.inf) <= 1 for side in sides_of(change.pair) for reading in side.readings):
        return "unclear", "a session of one sample; raise measure.rep_ms"
    if drift.change is not None and abs(drift.change) > asked:
        moved = f"{math.expm1(drift.change):+.1%}"
        return "unclear", f"machine drift {moved} (copy control); measure both sides again, side by side"
    if shown_same:
        return "same", note
    certain = q <= ERROR_RATE if q is not None else size >= change.half_width * (1 - 1e-9)
    if certain and size > ticks:
        return direction, note
    if size <= ticks and ticks > asked:
        return "unclear", _joined(note, "within two ticks of the clock; timer: graph resolves more")
    if q is None:
        return "unclear", _joined(note, "add sessions")
    needed = _sessions_needed(change, margin, rules)
    if needed > MANY_SESSIONS:
        return "unclear", "too noisy for any number of sessions; quieten the machine, or ask for a wider --margin"
    return "unclear", f"noisy: about {needed} sessions a side would tell"


def _judge_providers(change: Change, duel: Duel, rules: Rules) -> tuple[str, str]:
    """The word for two providers of a file, as the end of a run has it; with a margin that somebody asked for, what is shown
    to be within it is the same."""
    size = abs(change.effect)
    within = size + change.half_width <= math.log1p(rules.margin)
    if duel.outcome is Outcome.TIE or (rules.asked and within):
        return "same", ""
    if duel.outcome is not Outcome.UNCLEAR:
        return duel.outcome.value, ""
    if size <= change.half_width:
        return "unclear", f"{'rounds' if duel.sessions == 1 else 'sessions'} scatter by more than that; add sessions"
    return "unclear", "the same code differs by as much; add sessions"


def _one_measurement(pair: Pair) -> bool:
    """Whether both sides are one and the same, as in a file compared with itself; equal by chance is not enough."""
    old, new = sides_of(pair)
    return old.readings == new.readings and all(reading.started_at for reading in old.readings)


def _few_sessions(change: Change, rules: Rules) -> str:
    count = trials(change.pair, rules)
    if count > 2:
        return ""
    return "2 sessions" if count == 2 else f"1 session, floor {math.expm1(change.half_width):.1%}"


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _sessions_needed(change: Change, margin: float, rules: Rules) -> int:
    """How many sessions a side make the interval half as wide as the margin, sessions staying as noisy as they were."""
    sides = 1 if rules.paired else 2
    return max(trials(change.pair, rules) + 1, math.ceil(sides * (2 * 2.1 * change.sd / margin) ** 2))
