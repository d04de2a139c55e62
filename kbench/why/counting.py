"""Adds the hardware counters of a report to the facts of a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kbench.counters.kernel_counters import KernelCounters, merged, of_call
from kbench.counters.report_file import read_report
from kbench.errors import UsageError
from kbench.text.suggest import list_words
from kbench.why.facts import RowFacts

KERNELS_NAMED = 5
"""Kernels that an error names."""


def with_report(facts: RowFacts, path: Path) -> RowFacts:
    """The facts with the counters of a report. Raises UsageError."""
    counted = merged(read_report(path))
    kept = _of_row(facts, counted)
    if not kept:
        launches = list_words(_names([each.kernel.name for each in facts.call.launches])) if facts.call else ""
        there = list_words(_names([one.function for one in counted]))
        raise UsageError(
            f"--import {path}: the report has no kernel of this row: a call launches {launches}, and the report has {there}"
        )
    return replace(facts, counters=kept)


def _of_row(facts: RowFacts, counted: Sequence[KernelCounters]) -> tuple[KernelCounters, ...]:
    return tuple(of_call(counted, facts.call) if facts.call and facts.launches_known else counted)


def _names(names: Sequence[str]) -> list[str]:
    shown = list(dict.fromkeys(names))
    return [*shown[:KERNELS_NAMED], *(["others"] if len(shown) > KERNELS_NAMED else [])]
