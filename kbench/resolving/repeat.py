"""Measures one row of a results file again, as it was measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kbench.analysis import rows_of
from kbench.analysis.chosen_row import find_row
from kbench.comparison.compare import compare_results
from kbench.comparison.model import Comparison
from kbench.comparison.options import CompareOptions
from kbench.errors import UsageError
from kbench.execute.run import RunOptions, RunResult
from kbench.resolving.recorded_side import REPEAT, RecordedSide, joined_key
from kbench.results import table
from kbench.results.row import Row
from kbench.results.vocabulary import Role


@dataclass(frozen=True)
class Repeated:
    """A row that was measured again: the run, and the comparison of the row with the file. It is None if the run was
    interrupted."""

    run: RunResult
    comparison: Comparison | None


def measure_row_again(csv: Path, terms: str, options: RunOptions, note: Callable[[str], None]) -> Repeated:
    """Measure the row that the terms choose in one more session, beside the baseline of its case, and compare it with the row
    in the file. The results are a file of their own, in the folder of `options`.

    Raises UsageError if the terms do not choose one row, ResultsError if it cannot be measured here as it was, and what
    `execute` raises.
    """
    frame = table.read_results(csv)
    row = find_row(frame, csv, terms)[0]
    side = RecordedSide.read(csv, REPEAT)
    if (options.out / f"{side.config.path.stem}.csv").resolve() == csv.resolve():
        raise UsageError(f"--repeat {csv}: the new results would replace this file; choose another folder with --out")
    baseline = side.environment.get("baseline")
    beside = [
        other
        for other in rows_of(frame)
        if other.role == Role.PROVIDER and other.case.key == row.case.key and other.configuration_name == baseline
    ]
    for line in _unknown(row, side, bool(beside)):
        note(line)
    run = side.measure_anew({joined_key(each, side.axes) for each in (row, *beside)}, options, note)
    if run.interrupted:
        return Repeated(run, None)
    # all differences that are left, such as the driver, are in the report
    return Repeated(run, compare_results(f"before={csv}", f"now={run.csv}", options=CompareOptions(where=terms)))


def _unknown(row: Row, side: RecordedSide, has_baseline: bool) -> list[str]:
    """What the file does not say, a line for each."""
    lines = []
    if not row.source_hash:
        lines.append(f"{side.csv} does not say which code {row.provider} had: it may have changed")
    if not side.environment.get("command"):
        lines.append(f"{side.csv} does not say its command line: plug-ins that --plugin named are not loaded")
    if not has_baseline:
        lines.append(f"{side.csv} has no baseline in this case: the row is measured alone")
    return lines
