"""The interval of a change: as wide as the sessions of both sides justify."""

from __future__ import annotations

import math

import pytest
from making import Write, sessions

from kbench.comparison.compare import compare_results

T_OF_4_DEGREES = 2.776445
"""The 97.5 % quantile of Student's t distribution with 4 degrees of freedom."""


def test_a_row_alone_has_the_interval_of_a_two_sample_t_test(write: Write) -> None:
    """Three sessions a side that scatter by 2 %: the standard error of the change is 2 % times sqrt(1/3 + 1/3)."""
    times = [math.exp(log) for log in (-0.02, 0.0, 0.02)]
    [only] = compare_results(write("old", sessions(*times)), write("new", sessions(*times[::-1]))).rows
    expected = math.exp(T_OF_4_DEGREES * 0.02 * math.sqrt(1 / 3 + 1 / 3))
    assert only.ci == pytest.approx((1 / expected, expected), rel=1e-4)
