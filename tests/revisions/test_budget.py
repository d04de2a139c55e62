"""How many sessions a budget allows, with sessions that take 10 s of a made-up clock and whose rows stay unclear."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbench.comparison.model import CompareOptions
from kbench.comparison.verdict import Verdict
from kbench.revisions import ab


@pytest.mark.parametrize(
    ("budget_s", "sessions", "ended"),
    [
        (15, 1, "the budget is spent, before each side had 3 sessions: only large changes show"),
        (45, 2, "the budget is spent, before each side had 3 sessions: only large changes show"),
        (65, 3, "the budget is spent"),
        (10_000, 30, "30 sessions of each side are the most that kbench measures"),
    ],
)
def test_no_pair_of_sessions_begins_that_would_exceed_the_budget(
    monkeypatch: pytest.MonkeyPatch, budget_s: float, sessions: int, ended: str
) -> None:
    order: list[str] = []

    class Sessions:
        def __init__(self, name: str) -> None:
            self.name, self.csv, self.count = name, Path(name), 0

        def measure(self, arguments: object, limit_s: float) -> None:
            self.count += 1
            order.append(self.name)

    unclear = SimpleNamespace(rows=[SimpleNamespace(verdict=Verdict.UNCLEAR)])
    monkeypatch.setattr(ab, "_compare", lambda *arguments: unclear)
    monkeypatch.setattr(ab, "time", SimpleNamespace(monotonic=lambda: 10.0 * len(order)))
    base, head = Sessions("base"), Sessions("head")
    sides: Any = (base, head)
    assert ab._alternate(*sides, (), CompareOptions(), budget_s) == ended
    assert base.count == head.count == sessions
    assert order[:4] == ["base", "head", "head", "base"][: 2 * sessions]
