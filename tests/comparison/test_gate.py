"""What cannot be compared, and what the gate says of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from making import Write, failed, row

from kbench.comparison.compare import compare_results
from kbench.comparison.model import CompareOptions, Gate
from kbench.errors import UsageError


def gate(old: Path, new: Path, **options: object) -> Gate:
    return compare_results(old, new, options=CompareOptions(**options)).gate  # type: ignore[arg-type]


def test_what_cannot_be_compared_is_undecided_and_the_gate_says_why(write: Write) -> None:
    old = write("old", [row(1), row(2)])
    other = write("other", [row(1, device="NVIDIA B200"), row(2, device="NVIDIA B200")])
    declined = write("declined", [failed(1, status="unsupported"), failed(2)])
    no_value = "no row has a plausible value in every session on both sides; the table says why"
    for outcome, said in (
        (gate(old, other), "no row has values that were measured in the same way on both sides"),
        (gate(old, old, metric="tflops"), no_value),
        (gate(declined, declined), no_value),
    ):
        assert (outcome.outcome, outcome.text) == ("undecided", f"nothing was comparable: {said}")


def test_rows_without_a_ratio_pass_no_gate_that_asks_for_times(write: Write) -> None:
    timed = write("timed", [row(1), row(2)])
    crashed = write("crashed", [failed(1, status="crashed"), failed(2, status="crashed")])
    checked = write("checked", [failed(1, status="checked")])
    assert not compare_results(timed, crashed).comparable
    for old, new, fail_on, outcome in (
        (timed, crashed, "", "undecided"),
        (timed, crashed, "slower", "undecided"),
        (timed, crashed, "unclear", "undecided"),
        (timed, crashed, "missing", "passed"),
        (timed, crashed, "failed", "failed"),
        (timed, crashed, "slower,failed", "failed"),
        (crashed, timed, "slower,failed", "undecided"),
        (crashed, timed, "missing,failed", "passed"),
        (crashed, crashed, "failed", "undecided"),
        (checked, checked, "missing,failed", "passed"),
        (checked, checked, "slower,failed", "undecided"),
        (timed, write("mixed", [row(1, 0.5), failed(2)]), "slower", "passed"),
        (timed, write("suspect", [row(1, flags=("suspect",))]), "slower", "undecided"),
    ):
        decided = gate(old, new, fail_on=tuple(filter(None, fail_on.split(","))))
        assert decided.outcome == outcome, (old, new, fail_on, decided)


def test_strict_refuses_rows_that_were_measured_in_another_way(write: Write) -> None:
    def strict(old: object, new: object) -> tuple[str, str]:
        a, b = write("a", [row(1), *old]), write("b", [row(1, 1.5), *new])  # type: ignore[misc]
        assert gate(a, b).outcome == "passed"
        decided = gate(a, b, strict=True)
        return decided.outcome, decided.text

    refused = "1 row was not measured in the same way on both sides (--strict)"
    assert strict([row(2)], [row(2, case_hash="changed")]) == ("undecided", refused)
    flaky = [row(2, session=0), failed(2, session=1)]
    assert strict(flaky, flaky)[0] == "passed", "the same conditions"
    declined = [failed(2, status="unsupported")]
    assert strict(declined, declined)[0] == "passed"


def test_a_label_or_a_file_that_is_given_twice(write: Write) -> None:
    a, b = write("a", [row(1)]), write("b", [row(1)])
    with pytest.raises(UsageError, match=r"two files have the label base; give each its own label: old=a\.csv"):
        compare_results(f"base={a}", f"base={b}")
