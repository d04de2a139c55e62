"""Rows without a time, compared: failed, fixed, missing, new and untimed."""

from __future__ import annotations

from making import Write, failed, row, sessions
from verdicts import Judge

from kbench.comparison.compare import compare_results
from kbench.comparison.model import CompareOptions


def test_from_flaky_to_always_wrong_is_failed(verdict: Judge) -> None:
    """There were times, and now there are none."""
    flaky = [row(session=0), failed(session=1), row(session=2)]
    assert verdict(flaky, [failed(session=s) for s in range(3)])[0] == "failed"
    assert verdict(flaky, flaky)[0] == "untimed"


def test_a_failure_in_one_session_of_three_is_a_failure(verdict: Judge) -> None:
    partly = [row(session=0), failed(session=1), row(session=2)]
    assert verdict(sessions(1, 1, 1), partly) == (
        "failed",
        "wrong (1 of 3 sessions has no time): differs at 3 elements",
    )
    mixed = [failed(session=0, status="unavailable"), failed(session=1, status="crashed"), row(session=2)]
    assert verdict(sessions(1, 1, 1), mixed) == (
        "failed",
        "crashed (2 of 3 sessions have no time): differs at 3 elements",
    )


def test_a_side_without_the_metric_is_named(write: Write) -> None:
    known = [row(1, tflops=2.0), *(row(2, session=s, tflops=2.0) for s in range(3)), row(3, tflops=2.0), row(4), row(5)]
    less = [row(1), row(2, tflops=2.0), row(2, session=1), row(2, session=2, tflops=2.0), failed(3), row(4), row(6)]
    old, new = write("old", known), write("new", less)
    options = CompareOptions(metric="tflops")
    found = [(each.verdict, each.reason) for each in compare_results(old, new, options=options).rows]
    neither, failure = ("untimed", "neither side has tflops"), "wrong: differs at 3 elements"
    partly = ("untimed", "the new side has no tflops in 1 of 3 sessions")
    lost = ("untimed", "the new side has no tflops")
    assert found == [lost, partly, ("failed", failure), neither, ("missing", ""), ("new", "")]
    found = [(each.verdict, each.reason) for each in compare_results(new, old, options=options).rows]
    assert found[0] == ("untimed", "the old side has no tflops") and found[2] == ("fixed", f"was {failure}")
