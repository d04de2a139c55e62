"""What the tests of comparisons share: the words that rows get, and whether the gate passes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kbench.comparison.gate import Gate
from kbench.comparison.model import Comparison
from kbench.results.row import Row


def gate(comparison: Comparison, fail_on: set[str]) -> bool:
    return Gate.of(fail_on, strict=False).judge(comparison).passed


Judge = Callable[[Iterable[Row], Iterable[Row]], tuple[str, str]]


def words(comparison: Comparison) -> list[str]:
    return [verdict.verdict for verdict in comparison.rows]
