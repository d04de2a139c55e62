"""Fixtures of the tests of comparisons."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from making import Write

from kbench.comparison.compare import compare_results
from kbench.results.row import Row


@pytest.fixture
def verdict(write: Write) -> Callable[[Iterable[Row], Iterable[Row]], tuple[str, str]]:
    """The word and reason of two files that hold one key."""

    def verdict(old: Iterable[Row], new: Iterable[Row]) -> tuple[str, str]:
        [only] = compare_results(write("old", old), write("new", new)).rows
        return only.verdict, only.reason

    return verdict
