"""Calls the provider of one row again, in the case of the row: once, for a profiler or for its machine code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path

from kbench.analysis.chosen_row import find_row
from kbench.errors import ConfigError, ExecutionError, ResultsError
from kbench.execute.worker.starting import PluginFiles, start
from kbench.execute.worker.worker_process import Worker
from kbench.launches.launched_call import LaunchedCall
from kbench.protocol import CallRecorded, CallRequest, Catalog, Configuration, MeasureSettings, Rows
from kbench.resolving.recorded_side import Purpose, RecordedSide, refusal
from kbench.results import table
from kbench.results.row import Row
from kbench.results.vocabulary import Status
from kbench.text.printable import REASON_LIMIT, printable

CALL_AGAIN = Purpose("measure the whole config again on this machine")


@dataclass(frozen=True)
class CalledAgain:
    """A call that was made. `device` is the one that made it. `launched` is None for a call in the range of a profiler."""

    device: str
    launched: LaunchedCall | None


def call_row_again(csv: Path, terms: str, *, profiled: bool, note: Callable[[str], None]) -> CalledAgain:
    """Call the provider of the row that the terms choose, on inputs of the same shapes. With `profiled` the call is in the
    range of a profiler; otherwise its launches are recorded. Differences from the machine and the code of the row are notes.

    Raises UsageError if the terms do not choose one row, ResultsError if the file does not say how to make the call,
    ExecutionError if it fails or its launches cannot be recorded, and WorkerLost.
    """
    row = find_row(table.read_results(csv), csv, terms)[0]
    side = RecordedSide.read(csv, CALL_AGAIN)
    with _worker(side, note) as worker:
        request = CallRequest(row.case, _configuration(side, row, worker.catalog), _settings(side), profiled)
        for line in _differences(row, side, worker.catalog):
            note(line)
        if not profiled and worker.catalog.device.type != "cuda":  # an interpreter might take hours, for nothing
            raise ExecutionError(f"{worker.catalog.device.name} is no NVIDIA device")
        answers = list(worker.ask(request))
    launched = next((answer.launched for answer in answers if isinstance(answer, CallRecorded)), None)
    made = [one for answer in answers if isinstance(answer, Rows) for one in answer.rows]
    if not made or made[0].status is not Status.CHECKED:
        why = f"{made[0].status}: {made[0].reason}" if made else "the worker sent no row"
        raise ExecutionError(
            printable(f"{row.configuration_name} cannot be called on {row.case.label}: {why}", REASON_LIMIT)
        )
    if not launched and not profiled:
        raise ExecutionError(made[0].reason or "no kernels were recorded")
    return CalledAgain(worker.catalog.device.name, launched)


@contextmanager
def _worker(side: RecordedSide, note: Callable[[str], None]) -> Iterator[Worker]:
    """A worker with the plug-ins of the file. It is not forked from a template: profilers follow processes that are started."""
    worker = start(PluginFiles(side.config.plugins), note)
    try:
        yield worker
    finally:
        worker.stop()


def _configuration(side: RecordedSide, row: Row, catalog: Catalog) -> Configuration:
    """Raises ResultsError."""
    try:
        sweep = side.config.resolve(catalog)
    except ConfigError as error:
        raise refusal(side.csv, CALL_AGAIN, f"the config cannot be used: {error.issues[0]}", "mend that") from None
    known = {one.name: one for one in sweep.configurations}
    if row.configuration_name not in known:
        raise ResultsError(
            f"{side.csv}: {row.configuration_name} cannot be called: the config {side.config.path} does not name it; it came "
            "from an option of the command line"
        )
    return known[row.configuration_name]


def _settings(side: RecordedSide) -> MeasureSettings:
    values = {each.name: getattr(side.measure, each.name) for each in fields(MeasureSettings)}
    return MeasureSettings(**{**values, "kernels": True, "stages": False})


def _differences(row: Row, side: RecordedSide, catalog: Catalog) -> Iterator[str]:
    """What differs from the call that was measured, a line for each."""
    found = catalog.providers(row.case.operator).get(row.provider)
    if row.source_hash and found and found.source_hash != row.source_hash:
        yield f"the code of {row.provider} has changed since the row was measured"
    if catalog.device.name != row.device:
        yield f"the row was measured on {row.device}, and the call is made on {catalog.device.name}"
