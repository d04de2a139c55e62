"""Adds hardware counters to the facts of a row: from a report, or from a run of Nsight Compute on this machine."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kbench.counters import ncu
from kbench.counters.kernel_counters import KernelCounters, merged, of_call
from kbench.counters.report_file import read_report
from kbench.errors import UsageError
from kbench.text.suggest import list_words
from kbench.why.facts import RowFacts
from kbench.why.ncu_commands import call_arguments, is_cold

COUNT_LIMIT_S = 600.0
"""How long counting may take. Nsight Compute runs each kernel several times, and the provider may have to be compiled."""

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


def counted_here(facts: RowFacts) -> RowFacts:
    """The facts with counters from one more call of the provider, on this machine. Raises CountingFailed, with what ncu or the
    call said."""
    program = ncu.find_ncu()
    if not program:
        raise ncu.CountingFailed(f"ncu is not installed here; {ncu.INSTALL}")
    with tempfile.TemporaryDirectory(prefix="kbench-ncu-") as folder:
        report = Path(folder) / "report.ncu-rep"
        call = [sys.executable, "-m", "kbench", *call_arguments(facts)]
        ended = ncu.run_limited([program, *ncu.count_options(str(report), cold=is_cold(facts)), *call], COUNT_LIMIT_S)
        if not report.is_file():
            raise ncu.CountingFailed(ncu.fault_of(ended))
        try:
            return with_report(facts, report)
        except UsageError as error:
            raise ncu.CountingFailed(str(error).partition(": ")[2]) from None


def _of_row(facts: RowFacts, counted: Sequence[KernelCounters]) -> tuple[KernelCounters, ...]:
    return tuple(of_call(counted, facts.call) if facts.call and facts.launches_known else counted)


def _names(names: Sequence[str]) -> list[str]:
    shown = list(dict.fromkeys(names))
    return [*shown[:KERNELS_NAMED], *(["others"] if len(shown) > KERNELS_NAMED else [])]
