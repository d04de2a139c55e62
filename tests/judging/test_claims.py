"""Times that another clock contradicts are suspect, and those that kbench's own work or a slow launch explain are not."""

from __future__ import annotations

from itertools import chain, repeat

import pytest
from making import row

from kbench.judging.claims import held_against_clock
from kbench.protocol import ClockReading
from kbench.results.row import Row


def held(ms: float, launch_ms: float, *readings: ClockReading, torch_most_ms: float = 0.1) -> Row:
    """The row after these readings for it, of which the last one stays, and one for a baseline that claims 0.1 ms."""
    of_mine, of_torch = chain(readings, repeat(readings[-1])), ClockReading(None, torch_most_ms)
    rows = [row(ms=ms, provider="mine", launch_ms=launch_ms), row(ms=0.1, provider="torch")]
    mine, torch = held_against_clock(
        rows, ["mine"], lambda row, *_: next(of_mine) if row.provider == "mine" else of_torch, accelerated=True
    )
    assert torch == rows[1]
    return mine


@pytest.mark.parametrize(
    ("ms", "launch_ms", "least_ms", "suspect"),
    [
        (0.1, 0.01, 0.2, False),
        (0.1, 0.01, 0.3, True),
        (0.01, 0.01, 0.06, False),  # kbench's work is beside a short call
        (0.02, 0.3, 0.32, False),  # the host launches slowly
        (0.01, 5.0, 0.6, True),  # as slowly as is claimed, or not
        (0.25, 1.0, 1.65, False),  # a call of many kernels
        (0.1, 5.0, 1.3, True),
        (0.1, 0.01, None, False),  # the other clock could not run
    ],
)
def test_a_call_that_takes_longer_than_the_claims_explain_is_suspect(
    ms: float, launch_ms: float, least_ms: float | None, suspect: bool
) -> None:
    mine = held(ms, launch_ms, ClockReading(least_ms))
    assert mine.flags == (("suspect",) if suspect else ())
    assert (f"is {ms:g} ms" in mine.reason and f"{least_ms} ms" in mine.reason) == suspect


def test_a_slow_baseline_makes_a_row_suspect() -> None:
    mine = held(0.1, 0, ClockReading(0.1), torch_most_ms=0.04)
    assert mine.flags == ("suspect",) and "torch takes 0.1 ms" in mine.reason


def test_one_long_reading_accuses_nobody_and_one_wrong_output_does() -> None:
    assert held(0.1, 0, ClockReading(0.8), ClockReading(0.1)).flags == ()
    mine = held(0.1, 0, ClockReading(0.1, wrong="every element zero"), ClockReading(0.1))
    assert mine.flags == ("suspect",) and "every element zero" in mine.reason


def test_a_baseline_of_a_busy_host_is_held_by_its_shortest_call() -> None:
    rows = [row(ms=0.1, provider="mine"), row(ms=1.0, ms_min=0.1, provider="torch")]
    readings = {"mine": ClockReading(0.1), "torch": ClockReading(None, 0.05)}
    for accelerated in (False, True):
        mine, _ = held_against_clock(rows, ["mine"], lambda row, *_: readings[row.provider], accelerated=accelerated)
        assert mine.flags == (("suspect",) if accelerated else ())
