"""Two results files told apart: join the rows, judge each pair, render the verdicts.

The rules are in `verdict.py`; `join.py` and `render.py` know nothing of them.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from kbench import table
from kbench.comparison.join import join
from kbench.comparison.verdict import WORDS, Comparison, judge
from kbench.table import TableError

__all__ = ["Comparison", "compare", "gate"]


def compare(old_path: Path | str, new_path: Path | str) -> Comparison:
    """Judge the rows of a results CSV against those of an earlier one. Raises TableError."""
    old, new = table.read(old_path), table.read(new_path)
    pairs, notes = join(old, new)
    warnings = [*old.attrs["warnings"], *new.attrs["warnings"]]
    return Comparison(str(old_path), str(new_path), tuple(judge(pair) for pair in pairs), (*warnings, *notes))


def gate(comparison: Comparison, fail_on: Collection[str]) -> bool:
    """Whether the comparison passes: no row has a verdict in `fail_on`. Raises TableError for a word that is none."""
    if unknown := sorted(set(fail_on) - set(WORDS)):
        raise TableError(f"no verdict {unknown[0]!r} to fail on; there are {', '.join(WORDS)}")
    return not comparison.counts.keys() & set(fail_on)
