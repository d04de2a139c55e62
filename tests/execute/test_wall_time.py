"""Rows whose times contradict the clock of the parent are suspect; slow hosts and loaded machines raise no alarm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from making import row as made

from kbench.execute.wall_time import seen_from_outside
from kbench.protocol import Message, Rows, Sampling
from kbench.results.row import Row
from kbench.results.vocabulary import Role

SAMPLES = 100

HONEST_MS = 0.2
"""Of the other rows: their calls take this long, and the work between two calls as long again."""


def row(name: str, ms: float, role: str = Role.PROVIDER, **more: object) -> Row:
    return made(provider=name, role=role, ms=ms, **{"round_ms": (ms,) * 3} | more)


def judged(claimed_ms: float, wall_ms: list[float], timer: str = "do_bench", **fields: object) -> Row:
    """A provider that claims `claimed_ms` per call, and whose rounds of 100 samples took `wall_ms` on the parent's clock.
    There are two honest rows beside it."""
    rounds = len(wall_ms)
    rows = (
        row("mine", claimed_ms, timer=timer, round_ms=(claimed_ms,) * rounds, **fields),
        row("other", HONEST_MS, timer=timer, round_ms=(HONEST_MS,) * rounds),
        row("copy", HONEST_MS, Role.CONTROL, timer=timer, round_ms=(HONEST_MS,) * rounds),
    )
    walls = [wall_ms, *([2 * HONEST_MS * (SAMPLES + 6)] * rounds for _ in rows[1:])]
    now = 0.0

    def clock() -> float:
        return now

    def events() -> Iterator[Message]:
        nonlocal now
        for number in range(rounds):
            for index in range(3):
                yield Sampling(index)
                now += walls[index][number] * 1e-3
                yield Sampling(index, SAMPLES)
                now += 5.0  # between rounds
        yield Rows(rows)

    [found] = list(seen_from_outside(events(), warmup_ms=0.0, clock=clock))
    assert isinstance(found, Rows) and found.rows[1:] == rows[1:]
    return found.rows[0]


def test_a_clock_that_is_a_hundred_times_too_slow_is_suspect() -> None:
    found = judged(0.002, [250.0, 240.0, 260.0], reason="changed something")
    assert found.flags == ("suspect",) and found.ms == 0.002
    assert found.reason == (
        "the measured times cannot be right: 100 calls of 0.002 ms each are 0.2 ms, but the round took 260 ms by the clock of "
        "kbench's main process; changed something"
    )


def test_an_only_round_is_suspect_too() -> None:
    assert judged(0.002, [400.0]).flags == ("suspect",)


@pytest.mark.parametrize(
    ("claimed_ms", "wall_ms"),
    [
        (0.2, [42.4, 42.4, 42.4]),
        (0.002, [22.0, 22.0, 22.0]),  # a short call: the round is the work between the calls
        (0.2, [500.0, 42.4, 500.0]),  # something disturbed two rounds
        (2.0, [400.0, 400.0, 400.0]),  # twice as slow as it says: first calls are slow
        (0.2, [220.0]),  # the only round was slow once
    ],
)
def test_an_honest_row_is_left_alone(claimed_ms: float, wall_ms: list[float]) -> None:
    found = judged(claimed_ms, wall_ms)
    assert (found.flags, found.reason) == ((), "")


def test_slow_launches_are_no_lie() -> None:
    assert judged(0.01, [400.0] * 3, launch_ms=1.0).flags == ()
    assert judged(0.01, [400.0] * 3, launch_ms=0.01).flags == ("suspect",)


def test_a_replayed_graph_is_not_judged() -> None:
    """A sample of the graph timer is many calls."""
    assert judged(0.002, [250.0] * 3, timer="graph").flags == ()


def test_a_provider_with_more_threads_may_slow_down_the_work_between_its_calls() -> None:
    between_ms = HONEST_MS * (SAMPLES + 6)
    assert judged(0.002, [6 * between_ms] * 3).flags == ("suspect",)
    assert judged(0.002, [6 * between_ms] * 3, flags=("altered-state",)).flags == ("altered-state",)
    assert judged(0.002, [20 * between_ms] * 3, flags=("altered-state",)).flags == ("suspect", "altered-state")
