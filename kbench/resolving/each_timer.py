"""Measures one row of a results file again with each timer, as it was measured otherwise."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from tempfile import TemporaryDirectory

from kbench.analysis import rows_of
from kbench.analysis.chosen_row import find_row
from kbench.execute.run import RunOptions
from kbench.resolving.recorded_side import REPEAT, RecordedSide, joined_key
from kbench.results import table
from kbench.results.row import Row
from kbench.results.timers import SELECTABLE_TIMERS
from kbench.results.vocabulary import Role


def measure_with_each_timer(
    csv: Path, terms: str, note: Callable[[str], None], *, beside: Collection[str] = ()
) -> dict[str, list[Row]]:
    """Measure the row that the terms choose, and the configurations `beside` it in its case, once with each timer.

    Returns the rows of the case by timer, with those of the controls. Each timer has a worker process of its own, because a
    profiler stays in the process. No file is kept. Raises UsageError if the terms do not choose one row, ResultsError if it
    cannot be measured here as it was, KeyboardInterrupt, and what `execute` raises.
    """
    frame = table.read_results(csv)
    row = find_row(frame, csv, terms)[0]
    side = RecordedSide.read(csv, REPEAT)
    wanted = {row.configuration_name, *beside}
    keys = {
        joined_key(each, side.axes)
        for each in rows_of(frame)
        if each.role == Role.PROVIDER and each.case.key == row.case.key and each.configuration_name in wanted
    }
    found: dict[str, list[Row]] = {}
    for timer in SELECTABLE_TIMERS:
        note(f"measuring with timer {timer}")
        with TemporaryDirectory(prefix="kbench-timers-") as folder:
            run = side.measure_anew(keys, RunOptions(out=Path(folder), every_case=False), note, timer=timer)
        if run.interrupted:
            raise KeyboardInterrupt
        found[timer] = run.rows
    return found
