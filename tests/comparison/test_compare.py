"""Two results files compared as a whole: the geometric mean, and the gate."""

from __future__ import annotations

import subprocess
import sys

import pytest
from making import Write, failed, row
from verdicts import gate

from kbench.comparison.compare import compare_results
from kbench.errors import UsageError


def test_the_geomean_is_of_the_rows_that_both_files_have(write: Write) -> None:
    old = [row(1, 1.0), row(2, 1.0), row(3, 1e-6), failed(4), row(5, timer="graph")]
    new = [row(1, 2.0), row(2, 8.0), failed(3), row(4, 1e6), row(5), row(6, 1e6)]
    comparison = compare_results(write("old", old), write("new", new))
    [geomean] = comparison.geomeans
    assert geomean.ratio == pytest.approx(4.0)
    assert (geomean.rows, geomean.total) == (2, 6)


def test_files_without_a_common_condition_are_not_comparable_but_failures_are(write: Write) -> None:
    old = write("old", [row(1), row(2)])
    assert not compare_results(old, write("new", [row(1, device="other"), row(2, device="other")])).comparable
    assert compare_results(old, write("new", [failed(1), failed(2)])).comparable
    assert not compare_results(old, write("new", [failed(3)])).comparable


@pytest.mark.parametrize("count", [1, 255, 256, 257])
def test_the_gate_closes_on_any_number_of_slower_rows(write: Write, count: int) -> None:
    old, new = [row(n) for n in range(count)], [row(n, 1.5) for n in range(count)]
    comparison = compare_results(write("old", old), write("new", new))
    assert comparison.counts == {"slower": count}
    assert gate(comparison, {"slower"}) is False
    assert gate(comparison, {"failed", "missing"}) is True
    assert gate(comparison, set()) is True


def test_the_gate_stays_open_when_everything_got_faster(write: Write) -> None:
    comparison = compare_results(write("old", [row(n) for n in (1, 2)]), write("new", [row(n, 0.5) for n in (1, 2)]))
    assert gate(comparison, {"slower", "failed", "missing"})


def test_a_missing_row_closes_the_gate_for_missing_rows(write: Write) -> None:
    comparison = compare_results(write("old", [row(1), row(2)]), write("new", [row(1)]))
    assert not gate(comparison, {"missing"})


def test_a_word_that_is_no_verdict_is_refused(write: Write) -> None:
    comparison = compare_results(write("old", [row()]), write("new", [row()]))
    with pytest.raises(UsageError, match=r'"regressed".*slower'):
        gate(comparison, {"slower", "regressed"})


def test_all_rows_failed_on_both_sides(write: Write) -> None:
    rows = [failed(n) for n in (1, 2)]
    comparison = compare_results(write("old", rows), write("new", rows))
    assert comparison.counts == {"untimed": 2}
    assert comparison.geomeans[0].ratio is None


def test_comparing_needs_neither_torch_nor_matplotlib() -> None:
    code = (
        "import sys, kbench.comparison as c; print({'torch', 'triton', 'matplotlib', 'scipy.stats'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
