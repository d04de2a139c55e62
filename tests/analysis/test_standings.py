"""The sentence about the fastest provider, where times are suspect."""

from __future__ import annotations

import random
from dataclasses import replace

from making import row
from simulated import quiet, run

from kbench.analysis import analyse
from kbench.results.row import Row
from kbench.results.vocabulary import Status
from kbench.summary import headline


def rows(provider: str, *suspect: bool) -> list[Row]:
    return [row(n, provider=provider, flags=("suspect",) if each else ()) for n, each in enumerate(suspect, 1)]


def test_the_largest_error_is_that_of_right_results() -> None:
    wrong = replace(row(2, provider="mine"), status=Status.WRONG, reason="off", ms=None, round_ms=(), max_ulp=1e7)
    [mine] = analyse([replace(row(1, provider="mine"), max_ulp=3.0), wrong]).standings
    assert mine.max_ulp == 3.0


def test_a_provider_is_not_the_fastest_of_a_case_in_which_no_other_was_timed() -> None:
    alone = [*rows("mine", False), *[replace(row(2, provider="torch"), ms=3.0)]]
    found = analyse(alone)
    assert headline(found) == "Only one provider was timed in each case; there is nothing to compare it with."
    assert [line.sole for line in found.standings] == [0, 0]
    assert headline(analyse([*rows("mine", False), row(1, provider="torch", flags=("suspect",))])) == (
        "Only one provider was timed; there is nothing to compare it with."
    )

    both = run(random.Random(0), quiet(0.001), {"torch": 1.0, "mine": 2.0}, cases=2, rounds=5)
    once = [each for each in both if each.provider != "torch" or each.case != both[0].case]
    assert headline(analyse(once)) == (
        "mine is fastest in 1 of 2 cases; 2.00x as fast as torch (geomean of 1 case); only one provider was timed in 1 case."
    )
