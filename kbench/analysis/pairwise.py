"""The comparison of two configurations of a case: faster, slower, a tie, or unclear.

Configurations are compared round by round. In a round all configurations of a case run within a second or two, so a
disturbance of the machine affects both. The ratio of a session is the median of its rounds' ratios. With several sessions,
the ratio is the median of theirs, and sessions are the trials. The outcome is

    faster, slower   if the difference exceeds the noise (`noise.py`) and the scatter of its own trials, and nearly all trials
                     agree on which configuration is faster
    tie              if neither is shown, and the difference plus its uncertainty is below the noise floor, or below TIE if
                     TIE is larger
    unclear          otherwise

Everything is in natural logarithms: 0.05 is a time 1.05 times as long.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from kbench.results.cells import MARGIN, is_plausible
from kbench.results.row import Row
from kbench.results.timers import timer_kind

TIE = math.log1p(MARGIN)
"""Two configurations tie if they are shown to be less than 2 % apart, and neither is shown to be faster."""

CONFIDENT = 3.0
"""A difference within a session must exceed this many standard errors. It is more than the usual two, because a few rounds
estimate the scatter poorly."""

DISSENT = 9
"""One trial in nine may disagree about which configuration is faster. With fewer trials, none may."""


class Outcome(str, enum.Enum):
    """How the second configuration compares with the first."""

    FASTER = "faster"
    SLOWER = "slower"
    TIE = "tie"
    UNCLEAR = "unclear"


@dataclass(frozen=True)
class TimeDifference:
    """How much longer the second of two takes, in log time, and whether that is more than noise.

    half_width  half the width of the interval around `effect`; 0 with fewer than two trials
    agree       whether nearly all trials say that the same one is faster
    sessions    the number of sessions that have both; with 0 the outcome is unclear
    trials      the log ratios of the sessions, or of the rounds where there is one session
    outcome     see `judged`
    """

    effect: float
    half_width: float
    agree: bool
    sessions: int
    trials: tuple[float, ...] = ()
    outcome: Outcome = Outcome.UNCLEAR

    @property
    def ratio(self) -> float:
        """The second time over the first: 2.0 takes twice as long."""
        return math.exp(self.effect)

    def judged(self, proof: float, floor: float, ticks: float = 0.0) -> TimeDifference:
        """The difference with its outcome, by limits in log time: a difference must exceed `proof` to count, and `ticks`, the
        resolution of the clock. `floor` is the noise floor."""
        size, outcome = abs(self.effect), Outcome.UNCLEAR
        if self.agree and size > max(proof, ticks, self.half_width):
            outcome = Outcome.SLOWER if self.effect > 0 else Outcome.FASTER
        elif size + self.half_width <= max(floor, ticks, TIE):
            outcome = Outcome.TIE
        return replace(self, outcome=outcome)


def difference(old: Sequence[Row], new: Sequence[Row]) -> TimeDifference:
    """The difference of two configurations of a case, from their timed rows, one for each session."""
    of_old, of_new = ({row.session: row for row in rows} for rows in (old, new))
    together = sorted(of_old.keys() & of_new.keys())
    if not together:
        old_ms, new_ms = (median(row.ms or math.nan for row in rows) for rows in (old, new))
        return TimeDifference(math.log(new_ms / old_ms), math.inf, False, 0)
    logs = [_of_session(of_old[session], of_new[session]) for session in together]
    trials = logs[0] if len(logs) == 1 else [median(session_logs) for session_logs in logs]
    half_width = max(uncertainty(trials), uncertainty([log for session_logs in logs for log in session_logs]))
    effect = median(trials)
    dissenting = sum(trial * effect <= 0 for trial in trials)
    return TimeDifference(effect, half_width, dissenting <= len(trials) // DISSENT, len(together), tuple(trials))


def _of_session(old: Row, new: Row) -> list[float]:
    """The log ratios of the rounds of a session; only that of the times of the rows if the rounds are not known, or if one
    of them is implausible, such as a time of 0."""
    plausible = all(map(is_plausible, (*old.round_ms, *new.round_ms)))
    ratios = log_ratios(old.round_ms, new.round_ms) if plausible else []
    return ratios or [math.log((new.ms or math.nan) / (old.ms or math.nan))]


def ticks_of(rows: Sequence[Row]) -> float:
    """Two steps of the event clock, as a share of the shortest time, in log time. Calls inside a graph are not single
    readings of the clock."""
    return max((math.log1p(2 * timer_kind(row.timer).resolution_ms / row.ms) for row in rows if row.ms), default=0.0)


def log_ratios(old: Sequence[float], new: Sequence[float]) -> list[float]:
    """The logarithms of the second over the first, round by round, for the rounds that both have."""
    return [math.log(after / before) for before, after in zip(old, new, strict=False)]


def standard_error(logs: Sequence[float]) -> float:
    """The standard error of the median of logarithms; 0 for fewer than two. The furthest of five values, the two furthest of
    nine and so on are pulled in to the next one (winsorised), so that a disturbed round has little weight."""
    if len(logs) < 2:
        return 0.0
    middle = median(logs)
    distances = sorted(abs(log - middle) for log in logs)
    aside = (len(distances) - 1) // 4
    near = distances[: len(distances) - aside]
    squares = math.fsum(distance**2 for distance in near) + aside * near[-1] ** 2
    return 1.25 * math.sqrt(squares / (len(logs) - 1 - aside) / len(logs))


def uncertainty(logs: Sequence[float]) -> float:
    """The difference in log time that exceeds the scatter of the rounds."""
    return CONFIDENT * standard_error(logs)
