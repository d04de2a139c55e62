"""Measures the unclear rows of two files again, both sides in turn, until they are decided or the budget is spent."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kbench.comparison.compare import compare_results
from kbench.comparison.join import Key
from kbench.comparison.model import Comparison, JudgedRow
from kbench.comparison.options import CompareOptions
from kbench.comparison.verdict import Verdict
from kbench.errors import UsageError
from kbench.resolving.recorded_side import RecordedSide
from kbench.results import table
from kbench.revisions.alternate import MOST_SESSIONS

ENOUGH = f"{MOST_SESSIONS} sessions of a row are the most that kbench measures"


@dataclass(frozen=True)
class Resolved:
    """The comparison afterwards.

    before    how many rows were unclear before
    after     how many rows are unclear
    sessions  how many sessions of each side were added
    ended     why measuring ended
    """

    comparison: Comparison
    before: int
    after: int
    sessions: int
    ended: str

    @property
    def text(self) -> str:
        """One line that says what was measured."""
        if not self.sessions:
            return f"nothing was measured again: {self.ended}"
        added = f"{self.sessions} session{'s' * (self.sessions != 1)} of each file added"
        return f"{added}: {_rows(self.before)} unclear before, {self.after} now; {self.ended}"


def resolve(sources: Sequence[str], options: CompareOptions, budget_s: float, note: Callable[[str], None]) -> Resolved:
    """Compare two results files, and append sessions of the unclear rows to both.

    The sides are measured in the order A, B, B, A, A, B, ... as `kbench ab` does. Each session has the rows that are unclear
    then: a row that was decided can become unclear, because rows share their estimates of variance. Ends when no row is
    unclear, when every unclear row has MOST_SESSIONS, or when another pair of sessions would probably exceed the budget. The
    first pair is measured in any case. Raises UsageError, ResultsError, ExecutionError, WorkerLost, Busy and KeyboardInterrupt.
    """
    first, second = _two_files(sources, options)
    found = compare_results(*sources, options=options)
    before = unclear = _unclear(found)
    if not before:
        return Resolved(found, 0, 0, 0, "no row is unclear")
    if not _worthwhile(before):
        return Resolved(found, len(before), len(before), 0, ENOUGH)
    order = RecordedSide.read(first), RecordedSide.read(second)
    for side in order:
        side.check(before.keys(), note)
    began, longest, count, ended = time.monotonic(), 0.0, 0, ""
    while not ended:
        pair = time.monotonic()
        for side in order:
            start = time.monotonic()
            side.measure_again(_worthwhile(unclear), note)
            note(f"{side.csv}: {_rows(len(_worthwhile(unclear)))} measured again in {time.monotonic() - start:.1f} s")
        count, order = count + 1, (order[1], order[0])
        longest = max(longest, time.monotonic() - pair)
        found = compare_results(*sources, options=options)
        unclear = _unclear(found)
        if not unclear:
            ended = "no row is unclear"
        elif not _worthwhile(unclear):
            ended = ENOUGH
        elif time.monotonic() - began + longest > budget_s:
            ended = "the budget is spent"
    return Resolved(found, len(before), len(unclear), count, ended)


def _two_files(sources: Sequence[str], options: CompareOptions) -> list[Path]:
    """The paths of the files. Raises UsageError."""
    paths = [table.parse_source(source)[1] for source in sources]
    if options.by != "file" or len(paths) != 2:
        raise UsageError("--resolve measures the rows of two files; name two files, and leave out --by provider")
    if paths[0].resolve() == paths[1].resolve():
        raise UsageError(f"--resolve: {paths[0]} is given twice; name two files")
    return paths


def _unclear(found: Comparison) -> dict[Key, JudgedRow]:
    return {row.key: row for row in found.rows if row.verdict is Verdict.UNCLEAR}


def _worthwhile(rows: dict[Key, JudgedRow]) -> set[Key]:
    """The rows that have fewer than the most sessions on a side."""
    return {
        key
        for key, row in rows.items()
        if row.old and row.new and min(row.old.sessions, row.new.sessions) < MOST_SESSIONS
    }


def _rows(count: int) -> str:
    return f"{count} row{'s' * (count != 1)}"
