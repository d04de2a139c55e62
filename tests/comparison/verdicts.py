"""What the tests of comparisons share: the words that rows get."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kbench.comparison.model import Comparison
from kbench.results.row import Row

Judge = Callable[[Iterable[Row], Iterable[Row]], tuple[str, str]]


def words(comparison: Comparison) -> list[str]:
    return [row.verdict for row in comparison.rows]
