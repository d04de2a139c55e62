"""Measures the sessions of both sides in turn until the comparison is decided or the budget is spent."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from kbench.comparison.compare import compare_results
from kbench.comparison.model import Comparison
from kbench.comparison.options import CompareOptions
from kbench.comparison.verdict import Verdict
from kbench.revisions.session import SessionLimit, SideSessions

FEWEST_SESSIONS = 3
"""So many sessions on both sides show small changes: see docs/comparing.md."""

NAMED_FILES = 5
"""So many edited files are named."""

MOST_SESSIONS = 30
"""kbench measures no more sessions on a side than this, whatever the budget: rows that are unclear then stay unclear."""


@dataclass(frozen=True)
class Alternated:
    """The comparison, how many sessions each side has, and why measuring ended."""

    comparison: Comparison
    sessions: dict[str, int]
    ended: str


def alternate(
    base: SideSessions, head: SideSessions, options: CompareOptions, budget_s: float, note: Callable[[str], None]
) -> Alternated:
    """Measure base, head, head, base, base, head, ... so that a drift of the machine affects both sides alike.

    Stops when both sides have FEWEST_SESSIONS and no row is unclear, when both have MOST_SESSIONS, or when another pair of
    sessions would probably exceed the budget. The first pair is measured in any case; none of its sessions may take longer
    than the whole budget. Raises what SideSessions.measure and compare_results raise.
    """
    ended = _measure(base, head, options, budget_s, note)
    for each in (base, head):
        if each.edits and each.edits.found:
            names = ", ".join(sorted(each.edits.found)[:NAMED_FILES])
            note(
                f"warning: {each.side.name} was edited while kbench measured it ({names}), so its sessions may have run "
                "different code; run the command again"
            )
    return Alternated(_compare(base, head, options), {each.side.label: each.count for each in (base, head)}, ended)


def _measure(
    base: SideSessions, head: SideSessions, options: CompareOptions, budget_s: float, note: Callable[[str], None]
) -> str:
    """Measure pairs of sessions. Returns why it ended."""
    began, longest, order = time.monotonic(), 0.0, (base, head)
    while True:
        pair = time.monotonic()
        for sessions in order:
            start = time.monotonic()
            try:
                sessions.measure(budget_s)
            except SessionLimit as error:
                if base.count and head.count:
                    return f"{error}, so the budget is spent"
                raise error.with_advice() from None
            note(f"session {sessions.count} of {sessions.side.name}: {time.monotonic() - start:.1f} s")
        order = (order[1], order[0])
        longest = max(longest, time.monotonic() - pair)
        if head.count >= FEWEST_SESSIONS:
            rows = _compare(base, head, options).rows
            if all(row.verdict is not Verdict.UNCLEAR for row in rows):
                return "no row is unclear"
            if head.count >= MOST_SESSIONS:
                return f"{MOST_SESSIONS} sessions of each side are the most that kbench measures"
        if time.monotonic() - began + longest > budget_s:
            few = f", before each side had {FEWEST_SESSIONS} sessions: only large changes show"
            return f"the budget is spent{few if head.count < FEWEST_SESSIONS else ''}"


def _compare(base: SideSessions, head: SideSessions, options: CompareOptions) -> Comparison:
    return compare_results(f"base={base.csv}", f"head={head.csv}", options=options)
