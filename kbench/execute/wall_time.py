"""Compares the times that a worker claims with the wall time of its rounds, on the clock of this process.

A provider runs in the process whose clock times it, and may replace that clock. It cannot replace the clock of the parent. The
wall time of a round is more than the sum of its samples: before each call the inputs change, and the cache is flushed. The
other providers and controls of the case say how much more.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from kbench.protocol import Message, Rows, Sampling
from kbench.results.row import Row
from kbench.results.timers import EXTRA_CALLS, timer_kind
from kbench.results.vocabulary import Flag, Role

CLAIM_MARGIN = 4.0
"""The calls may take this many times as long as they are said to take: the first calls of a round may be slow."""

OVERHEAD_MARGIN = 3.0
"""The work between the calls may take this many times as long as that of the other rows of the case."""

ALTERED_MARGIN = 12.0
"""The same for a provider that changed settings of the process: with another number of threads, kbench's own work between the
calls takes longer on a busy host."""

ROUND_SLACK_MS = 20.0
"""This much time of a round is never a contradiction: the parent may have been busy when the round ended."""

ONLY_ROUND_SLACK_MS = 200.0
"""The same for a row with one round: no other round shows that this one was slow by chance. On an H200, two of 260 such rows
took 59 ms too long, with one call of 0.1 and 0.3 ms. Both were in the first case of a session."""


@dataclass(frozen=True)
class TimedRound:
    """A round as the parent saw it: its wall time in ms, and the number of samples that the worker reports."""

    wall_ms: float
    samples: int

    def calls_ms(self, ms: float) -> float:
        """What the calls of the round took together, if each took `ms`."""
        return (self.samples + EXTRA_CALLS) * ms


def seen_from_outside(
    events: Iterator[Message], warmup_ms: float, clock: Callable[[], float] = time.perf_counter
) -> Iterator[Message]:
    """Pass on the answers to a task, without the `Sampling` messages. Rows whose times are impossible are `suspect`,
    with a reason. `warmup_ms` is the untimed part of a first round, `clock` a clock in seconds."""
    rounds: dict[int, list[TimedRound]] = defaultdict(list)
    begun = 0.0
    for event in events:
        if isinstance(event, Sampling):
            if event.samples:
                rounds[event.index].append(TimedRound((clock() - begun) * 1e3, event.samples))
            begun = clock()
        elif isinstance(event, Rows):
            yield replace(event, rows=tuple(_judged(event.rows, rounds, warmup_ms)))
        else:
            yield event


def _judged(rows: Sequence[Row], rounds: dict[int, list[TimedRound]], warmup_ms: float) -> Iterator[Row]:
    timed = {
        index: list(zip(rounds[index], row.round_ms, strict=True))
        for index, row in enumerate(rows)
        if row.ms is not None and len(rounds[index]) == len(row.round_ms) and timer_kind(row.timer).launches
    }
    for index, row in enumerate(rows):
        further = [pairs for further_index, pairs in timed.items() if further_index != index]
        if row.role == Role.PROVIDER and index in timed and further and Flag.SUSPECT not in row.flags:
            row = _compared(row, timed[index], further, warmup_ms)
        yield row


Pairs = Sequence[tuple[TimedRound, float]]
"""The rounds of a row, each with the time in ms that the worker claims for a call."""


def _compared(row: Row, pairs: Pairs, further: Sequence[Pairs], warmup_ms: float) -> Row:
    """The row, which is `suspect` if each of its rounds took far longer than its calls and the work between them can."""
    between = [
        [(max(round_.wall_ms - round_.calls_ms(ms), 0.0), round_.calls_ms(1.0)) for round_, ms in rounds]
        for rounds in further
    ]
    of_a_round = median(median(between_ms for between_ms, _ in rounds) for rounds in between)
    of_a_call = median(median(between_ms / calls for between_ms, calls in rounds) for rounds in between)
    margin = ALTERED_MARGIN if Flag.ALTERED_STATE in row.flags else OVERHEAD_MARGIN
    slack_ms = ROUND_SLACK_MS if len(pairs) > 1 else ONLY_ROUND_SLACK_MS
    excess = []
    for number, (round_, ms) in enumerate(pairs):
        calls_ms = round_.calls_ms(ms + (row.launch_ms or 0.0))
        between_ms = max(of_a_round, round_.calls_ms(of_a_call))
        possible_ms = CLAIM_MARGIN * calls_ms + margin * between_ms + slack_ms
        possible_ms += 0.0 if number else CLAIM_MARGIN * warmup_ms
        excess.append(round_.wall_ms / possible_ms)
    if min(excess) <= 1:
        return row
    round_, ms = pairs[-1]
    reason = (
        f"the measured times cannot be right: {round_.samples} calls of {ms:.4g} ms each are {round_.samples * ms:.3g} ms, "
        f"but the round took {round_.wall_ms:.3g} ms by the clock of kbench's main process"
    )
    reason = f"{reason}; {row.reason}" if row.reason else reason
    return replace(row, flags=(Flag.SUSPECT.value, *row.flags), reason=reason)
