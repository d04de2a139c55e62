"""What is compared with what: other metrics, several files, the providers of one file, and a choice of rows."""

from __future__ import annotations

import pytest
from making import Write, row
from verdicts import words

from kbench.comparison.compare import compare_results
from kbench.comparison.options import CompareOptions
from kbench.errors import UsageError


def test_of_a_speed_more_is_better(write: Write) -> None:
    old = write("old", [row(ms=1.0, gbps=2000.0)])
    new = write("new", [row(ms=0.5, gbps=4000.0)])
    [only] = compare_results(old, new, options=CompareOptions(metric="gbps")).rows
    assert (only.verdict, only.ratio) == ("faster", pytest.approx(2.0))
    with pytest.raises(UsageError, match=r'"speed".*gbps'):
        compare_results(old, new, options=CompareOptions(metric="speed"))


def test_a_metric_that_was_not_measured_is_no_failure(write: Write) -> None:
    old = write("old", [row(achieved_gbps=1.0), row(512)])
    assert words(compare_results(old, old, options=CompareOptions(metric="achieved_gbps"))) == ["unclear", "untimed"]


def test_only_the_rows_that_were_asked_for(write: Write) -> None:
    rows = [row(n, dtype=dtype) for n in (128, 4096) for dtype in ("float32", "bfloat16")]
    a = write("a", rows)
    assert len(compare_results(a, write("b", rows), options=CompareOptions(where="dtype=bf16,N>=4096")).rows) == 1
    with pytest.raises(UsageError):
        compare_results(a, a, options=CompareOptions(where="colour=red"))
