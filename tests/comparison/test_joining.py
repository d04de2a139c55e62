"""Which rows of two files belong together: conditions, keys, axes, and nothing in common."""

from __future__ import annotations

from dataclasses import replace

import pytest
from making import Write, row

from kbench.comparison.compare import compare_results
from kbench.errors import ResultsError, UsageError
from kbench.results.case import Case
from kbench.results.row import Row

# ---- conditions


@pytest.mark.parametrize("field", ["device", "timer", "cache", "case_hash"])
def test_other_conditions_are_incomparable_with_the_reason(write: Write, field: str) -> None:
    old, new = write("old", [row(**{field: "this"})]), write("new", [row(ms=9.0, **{field: "that"})])
    [judged] = compare_results(old, new).rows
    assert judged.verdict == "incomparable" and f"{field} this -> that" in judged.reason


def test_in_a_file_of_several_devices_each_is_compared_with_itself(write: Write) -> None:
    """A fleet measured the cases; a case may have gone to another kind of device than last time."""
    old = [row(1, device="NVIDIA H200"), row(2, device="NVIDIA H100"), row(3, device="NVIDIA H100")]
    new = [row(1, 2.0, device="NVIDIA H200"), row(2, 2.0, device="NVIDIA H100"), row(3, device="NVIDIA H200")]
    comparison = compare_results(write("old", old), write("new", new))
    assert [(v.key.case.N, v.key.case.device, v.verdict) for v in comparison.rows] == [
        (1, "NVIDIA H200", "slower"),
        (2, "NVIDIA H100", "slower"),
        (3, "NVIDIA H100", "missing"),
        (3, "NVIDIA H200", "new"),
    ]
    assert comparison.differences == ()
    alone = write("alone", [row(1, 2.0, device="NVIDIA H200")])
    assert compare_results(write("fleet", old), alone).differences == ()


# ---- keys


def with_axis(name: str, value: object) -> Row:
    return replace(row(1), case=Case("softmax", {"M": 4096, "N": 1, name: value}, "float32"))  # type: ignore[dict-item]


def test_an_axis_with_several_values_that_the_other_file_lacks_is_named(write: Write) -> None:
    old, new = write("old", [row(1)]), write("new", [with_axis("K", k) for k in (1, 2)], ("M", "N", "K"))
    with pytest.raises(UsageError, match=r"several values of the axis K, but .* has no such axis, .* --where K=1"):
        compare_results(old, new)


def test_the_same_session_with_two_timers_asks_for_one_of_them(write: Write) -> None:
    old = write("old", [row(1), replace(row(1), timer="graph")])
    with pytest.raises(ResultsError, match=r"is also on line 2, with another timer; .* --where timer=do_bench"):
        compare_results(old, write("new", [row(1)]))
