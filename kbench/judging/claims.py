"""Holds the times that the process of a candidate claims against the clock of the process that judges.

Whatever a candidate replaces in its own process, it cannot deliver right outputs sooner than it computes them.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from kbench.protocol import ClockReading
from kbench.results.case import BACKWARD, Case
from kbench.results.row import Row
from kbench.results.timers import DEFAULT_TIMER
from kbench.results.vocabulary import Flag

GAIN_CASES, DRAWN_CASES = 2, 2
"""In how many cases the times are held against the other clock: those where a candidate claims the largest speed-up, and
others, which nobody knows before it runs. Four cases that are drawn from a dozen miss a single false one two times in three. As
many are drawn from the cases that a baseline is said to decline, and it is tried there."""

CLAIM_FACTOR, HOST_CLAIM_FACTOR = 2.0, 5.0
"""A call of a candidate may take this many times as long as is claimed, and one of a baseline may be claimed to take this many
times as long as it does. On an H200, right kernels that claimed 16 to 194 us took, without the slack of a round, 0.5 to 1.5
times as long: at most 0.4 of what is allowed, and 0.7 if the host took 0.1 ms to launch a call. A kernel that claims a third of
its time is seen from 0.15 ms on, and one that claims a tenth from 0.06 ms on. On a host, right kernels took up to 3.3 times as
long as they claimed, because their outputs were in new memory."""

CALL_MS = 0.02
"""What kbench does beside each call. It took 4 to 15 us on the host of that H200."""

LAUNCH_MS, LAUNCH_FACTOR = 0.25, 5.0
"""A claim leaves out what the host does to launch a call. So much of it counts, or this many times the claim if that is more.
On an H200, torch.vmap and a pool of two threads took 0.3 to 0.4 ms for kernels of 20 to 30 us together, and a loop over 101
kernels of 2.5 us, the shortest, 1.6 ms. It is a claim itself, so not all of it counts."""

READINGS = 2
"""So many readings of the other clock contradict a time before it counts as wrong: on a host with 3 busy programs a core, one
of 38 readings of a right kernel took 8 times as long as the kernel."""

ReadClock = Callable[[Row, float, bool], ClockReading]
"""Reads the other clock for the configuration of a row. The number is about what its call takes in ms, as far as is claimed.
The last one says whether the calls are made in the process of that clock."""


def held_against_clock(
    rows: Sequence[Row],
    candidates: Collection[str],
    read: ReadClock,
    *,
    accelerated: bool,
    timer: str = DEFAULT_TIMER,
) -> list[Row]:
    """The rows. Those of a candidate are `suspect` in a case in which its time is too short, or that of a baseline too long, or
    where a baseline, timed in other cases, is said to decline and does not."""
    factor = CLAIM_FACTOR if accelerated else HOST_CLAIM_FACTOR
    of_providers = [row for row in rows if row.of_provider and row.case.mode != BACKWARD]
    if not accelerated:  # the time of a host contains the launch
        of_providers = [replace(row, launch_ms=None) for row in of_providers]
    timed = [(row, row.ms) for row in of_providers if row.ms]
    baselines = {row.configuration_name for row, _ in timed} - set(candidates)
    declined = [row for row in of_providers if row.status.declined and row.configuration_name in baselines]
    if timer != DEFAULT_TIMER:  # it may decline a call that runs
        declined = []
    reasons: dict[tuple[Case, str], list[str]] = defaultdict(list)  # by case and candidate
    for case in _held_cases(timed, candidates):
        claims = [(row, ms) for row, ms in timed if row.case == case]
        for name in dict.fromkeys(row.configuration_name for row, _ in claims):
            own = [(row, ms) for row, ms in claims if row.configuration_name == name]
            judged = name in candidates
            claimed_ms = min(ms for _, ms in own)
            contradict = _too_short
            if not judged:
                claimed_ms = min(row.ms_min or ms for row, ms in own)
                contradict = _too_long
            # beside other programs, most calls of a host may take long
            if not judged and not accelerated:
                own = [(row, min(ms, row.ms_min or ms)) for row, ms in own]
            for _ in range(READINGS):
                reading = read(own[0][0], claimed_ms, not judged)
                reason = next(filter(None, (contradict(row, ms, reading, factor) for row, ms in own)), "")
                if reading.wrong or not reason:
                    break
            if reason:
                for candidate in [name] if judged else candidates:
                    reasons[case, candidate].append(reason)
    for name in baselines:
        own = [(row, ms) for row, ms in timed if row.configuration_name == name]
        refused = [row for row in declined if row.configuration_name == name]
        for row in random.SystemRandom().sample(refused, min(len(refused), DRAWN_CASES)):
            if read(row, min(ms for _, ms in own), True).most_ms is not None:
                says = f"the process of the candidate says that {name} is {row.status} here"
                for candidate in candidates:
                    reasons[row.case, candidate].append(f"{says} ({row.reason}), but it ran in another process")
    return [_marked(row, reasons.get((row.case, row.configuration_name), [])) for row in rows]


def _held_cases(timed: Sequence[tuple[Row, float]], candidates: Collection[str]) -> Sequence[Case]:
    """The cases in which the times are held."""
    shortest_ms, longest_ms = dict[Case, float](), dict[Case, float]()
    for row, ms in timed:
        if row.configuration_name in candidates:
            shortest_ms[row.case] = min(ms, shortest_ms.get(row.case, ms))
        else:
            longest_ms[row.case] = max(ms, longest_ms.get(row.case, ms))
    gains = {case: longest_ms.get(case, 0.0) / ms for case, ms in shortest_ms.items()}
    shuffled = random.SystemRandom().sample(list(gains), len(gains))
    largest = sorted(shuffled, key=gains.__getitem__, reverse=True)[:GAIN_CASES]
    return largest + [case for case in shuffled if case not in largest][:DRAWN_CASES]


def _marked(row: Row, reasons: list[str]) -> Row:
    if not reasons or not row.ms or not row.of_provider:
        return row
    flags = tuple(dict.fromkeys([Flag.SUSPECT.value, *row.flags]))
    return replace(row, flags=flags, reason="; ".join(filter(None, [*reasons, row.reason])))


def _too_short(row: Row, ms: float, reading: ClockReading, factor: float) -> str:
    """Why the time of a candidate cannot be right; empty if it can."""
    if reading.wrong:
        return f"failed when another process took its time: {reading.wrong}"
    launch_ms = min(row.launch_ms or 0.0, max(LAUNCH_MS, LAUNCH_FACTOR * ms))
    if reading.least_ms is None or reading.least_ms <= factor * (ms + CALL_MS + launch_ms):
        return ""
    by_clock = f"by the clock of another process a call takes at least {reading.least_ms:.4g} ms"
    return f"the measured time cannot be right: it is {ms:.4g} ms, but {by_clock}"


def _too_long(row: Row, ms: float, reading: ClockReading, factor: float) -> str:
    """Why the time of a baseline cannot be right; empty if it can."""
    if reading.most_ms is None or ms <= factor * reading.most_ms:
        return ""
    by_clock = f"by the clock of another process a call takes at most {reading.most_ms:.4g} ms"
    return (
        f"the process of the candidate says that {row.configuration_name} takes {row.ms or ms:.4g} ms, but {by_clock}"
    )
