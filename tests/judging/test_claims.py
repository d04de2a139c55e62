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


@pytest.mark.parametrize(("accelerated", "suspect"), [(False, False), (True, True)])
def test_most_calls_of_a_baseline_may_take_long_on_a_busy_host(accelerated: bool, suspect: bool) -> None:
    rows = [row(ms=0.1, provider="mine"), row(ms=10.0, ms_min=0.1, provider="torch")]
    readings = {"mine": ClockReading(0.1), "torch": ClockReading(None, 0.05)}
    mine, _ = held_against_clock(rows, ["mine"], lambda row, *_: readings[row.provider], accelerated=accelerated)
    assert mine.flags == (("suspect",) if suspect else ())
    assert ("torch takes 10 ms" in mine.reason) == suspect


def test_a_slow_launch_explains_no_call_of_a_host() -> None:
    rows = [row(ms=0.001, provider="mine", launch_ms=5.0)]
    [mine] = held_against_clock(rows, ["mine"], lambda *_: ClockReading(0.3), accelerated=False)
    assert mine.flags == ("suspect",)


def held_in_two_of_a_dozen(torch: Row, timer: str = "do_bench") -> list[int]:
    """In which cases a row is suspect, if `mine` is a hundred times as slow as it claims for N = 1, and claims more there."""
    rows = [row(n, 1e-3 if n == 1 else 0.1, "mine") for n in range(12)]
    rows += [torch if torch.case == mine.case else row(mine.case.axes["N"], 0.1, "torch") for mine in rows]
    slow = ClockReading(0.5, 0.1)

    def read(row: Row, *_: object) -> ClockReading:
        return slow if row.provider == "torch" or row.case.axes["N"] == 1 else ClockReading(0.1)

    held = held_against_clock(rows, ["mine"], read, accelerated=True, timer=timer)
    return [int(row.case.axes["N"]) for row in held if row.flags]


def test_the_largest_speed_up_is_always_held_and_so_is_a_baseline_that_declines_what_it_can_do() -> None:
    declined = row(2, None, "torch", status="unsupported", reason="too long")
    for _ in range(5):
        assert held_in_two_of_a_dozen(row(2, 0.1, "torch")) == [1]
        assert held_in_two_of_a_dozen(declined) == [1, 2]
    assert held_in_two_of_a_dozen(declined, "graph") == [1]  # the timer may have declined
