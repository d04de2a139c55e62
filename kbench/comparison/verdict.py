"""What a pair of measurements says, in one word and a reason.

A time is the median of a session; samples inside a session are not independent and are never counted as evidence. With
one session on a side there is no estimate of how much sessions differ, and only a change of FLOOR or more is believed:
below it, two runs of the same code differ too. With two or more on each side a change is believed when it is at least
MARGIN and no session of one side is among those of the other; `same` is a finding too, and means that no two sessions
across the sides differ by more than MARGIN. All bounds are factors, so that swapping the files swaps the words.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from dataclasses import dataclass

from kbench.comparison.join import CONDITIONS, Key, Pair, Side
from kbench.results import Status

WORDS = ("slower", "failed", "missing", "faster", "fixed", "new", "incomparable", "unclear", "same")
"""All verdicts, those that want attention first."""

FLOOR = 1.03
MARGIN = 1.02
_ROUNDING = 1 + 1e-9


@dataclass(frozen=True)
class Verdict:
    """One row of a comparison. `ratio` is new time over old, 2.0 is twice as slow; None where none can be stated."""

    key: Key
    word: str
    reason: str = ""
    old_ms: float | None = None
    new_ms: float | None = None
    ratio: float | None = None


@dataclass(frozen=True)
class Comparison:
    """The verdicts on two results files, sorted by key, and notes on what was assumed to get them."""

    old: str
    new: str
    rows: tuple[Verdict, ...]
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """How often each verdict was given, in the order of WORDS; those never given are left out."""
        counts = Counter(row.word for row in self.rows)
        return {word: counts[word] for word in WORDS if counts[word]}

    @property
    def compared(self) -> list[float]:
        """The ratios of all rows that have one: measured on both sides, under the same conditions."""
        return [row.ratio for row in self.rows if row.ratio is not None]

    @property
    def geomean(self) -> float | None:
        """The geometric mean of `compared`: new time over old. None when nothing was compared."""
        return statistics.geometric_mean(self.compared) if self.compared else None

    @property
    def comparable(self) -> bool:
        """Whether the files say anything about each other: false when no row is in both under equal conditions."""
        return bool(self.counts.keys() - {"new", "missing", "incomparable"})


def judge(pair: Pair) -> Verdict:
    """The verdict on one key."""
    key, old, new = pair.key, pair.old, pair.new
    old_ms, new_ms = _median(old), _median(new)
    if old is None or new is None or Status.OK not in (old.status, new.status) or old.status != new.status:
        word, reason = _judge_statuses(old, new)
        return Verdict(key, word, reason, old_ms, new_ms)
    if differing := _differing(old, new):
        return Verdict(key, "incomparable", differing, old_ms, new_ms)
    if old.suspect or new.suspect:
        return Verdict(key, "unclear", "suspect: faster than the memory can be", old_ms, new_ms)
    assert old_ms and new_ms  # both sides are ok, so they have times
    word, reason = _judge_times(old.ms, new.ms, new_ms / old_ms)
    return Verdict(key, word, reason, old_ms, new_ms, new_ms / old_ms)


def _judge_statuses(old: Side | None, new: Side | None) -> tuple[str, str]:
    """At least one side lacks a time in some session. A failure is `failed` unless there was one before."""
    before, after = _outcome(old), _outcome(new)
    both = after if before == after else f"{before}, now {after}"
    failed_before = old is not None and old.status.failed
    if new is None:
        return "missing", before
    if new.status.failed:
        return ("incomparable", f"failed in both: {both}") if failed_before else ("failed", after)
    if old is None:
        return "new", after
    if new.status is Status.OK:
        return ("fixed" if failed_before else "new"), f"was {before}"
    if old.status is Status.OK:
        return "missing", after
    return "incomparable", f"no time in either: {both}"


def _judge_times(old: tuple[float, ...], new: tuple[float, ...], ratio: float) -> tuple[str, str]:
    change = max(ratio, 1 / ratio) * _ROUNDING
    direction = "slower" if ratio > 1 else "faster"
    sessions = min(len(old), len(new))
    if sessions < 2:
        return (direction if change >= FLOOR else "unclear"), "1 session"
    note = "2 sessions" if sessions == 2 else ""
    apart = max(old) < min(new) or max(new) < min(old)
    if apart and change >= MARGIN:
        return direction, note
    if max(max(new) / min(old), max(old) / min(new)) <= MARGIN * _ROUNDING:
        return "same", note
    return "unclear", f"change below {MARGIN - 1:.0%}" if apart else "sessions overlap"


def _median(side: Side | None) -> float | None:
    """The median of the sessions' log times, as a time."""
    return math.exp(statistics.median(map(math.log, side.ms))) if side and side.ms else None


def _outcome(side: Side | None) -> str:
    """`wrong: differs at 3 elements`, `crashed (1 of 3 sessions have no time): signal 11`; "" for an ok side."""
    if side is None or side.status is Status.OK:
        return ""
    lost = side.sessions - len(side.ms)
    where = f" ({lost} of {side.sessions} sessions have no time)" if side.sessions > 1 else ""
    return f"{side.status.value}{where}" + (f": {' '.join(side.reason.split())}" if side.reason else "")


def _differing(old: Side, new: Side) -> str:
    """The conditions under which the two sides were measured, where they are not one and the same."""
    return ", ".join(
        f"{name} {'/'.join(old.conditions[name]) or 'unknown'} -> {'/'.join(new.conditions[name]) or 'unknown'}"
        for name in CONDITIONS
        if old.conditions[name] != new.conditions[name] or len(old.conditions[name]) != 1
    )
