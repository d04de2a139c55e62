"""Turns a results file into a file of a history folder."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kbench.comparison.environment_differences import environment_properties
from kbench.errors import ResultsError, UsageError
from kbench.history.storage.folder import add_file, read_files
from kbench.history.storage.stored_run import STORED_FORMAT, StoredReading, StoredRun
from kbench.results.environment import Environment, read_environment
from kbench.results.reader import read_results
from kbench.results.row import Row
from kbench.results.stamps import now
from kbench.results.vocabulary import Control, Flag, Role, Status
from kbench.text.printable import NAME_LIMIT, printable


@dataclass(frozen=True)
class Added:
    """What `add_results` did.

    path    the new file; None if the folder had all readings already
    fresh   the number of readings that were added
    known   the number of readings that the folder had
    notes   what is missing or damaged in the results file, its environment file and the folder
    """

    path: Path | None
    fresh: int
    known: int
    notes: tuple[str, ...]


def add_results(source: Path, folder: Path, machine: str = "") -> Added:
    """Add the readings of a results file to a folder. Readings that the folder has already are left out.

    `machine` is a name for the machine. Without it, the device and its UUID tell machines apart. Raises ResultsError for a
    results file or a folder that cannot be used, and UsageError for a name that cannot be printed.
    """
    if machine and (not machine.isprintable() or len(machine) > NAME_LIMIT):
        raise UsageError(f"--machine: the name must be printable and have at most {NAME_LIMIT} characters")
    if folder.exists() and not folder.is_dir():
        raise ResultsError(f"{folder}: not a folder; name a folder for the history")
    results = read_results(source)
    environment, note = read_environment(source, expected=True)
    rows = [row for row in results.rows if _belongs(row)]
    if not any(row.role == Role.PROVIDER for row in rows):
        raise ResultsError(f"{source}: the file has no row of any provider; run the sweep again")
    before = read_files(folder)
    known = {reading.identity for run in before.runs for reading in run.readings}
    readings = list({reading.identity: reading for reading in map(_reading, rows)}.values())
    fresh = [reading for reading in readings if reading.identity not in known]
    notes = (*results.warnings, *filter(None, [note]), *before.notes)
    if not any(reading.role == Role.PROVIDER for reading in fresh):
        return Added(None, 0, len(readings), notes)
    run = StoredRun(
        schema=STORED_FORMAT,
        source=source.name,
        added_at=now(),
        machine=machine.strip(),
        baseline=environment.baseline or "",
        commit=_commit(environment),
        environments=_environments(environment, {reading.env_id for reading in fresh}),
        readings=fresh,
    )
    return Added(add_file(folder, run), len(fresh), len(readings) - len(fresh), notes)


def _belongs(row: Row) -> bool:
    """Whether a history needs a row: those of providers, and the copies that were timed."""
    return row.role == Role.PROVIDER or (row.provider == Control.COPY and row.status is Status.OK)


def _reading(row: Row) -> StoredReading:
    return StoredReading(
        operator=row.case.operator,
        provider=row.provider,
        params=row.params,
        axes={name: value for name, value in row.case.axes.items() if value is not None},
        dtype=row.case.dtype,
        role=row.role,
        session=row.session,
        status=row.status,
        reason=row.reason if row.status is not Status.OK else "",
        ms=row.ms,
        suspect=Flag.SUSPECT in row.flags,
        timer=row.timer,
        cache=row.cache,
        device=row.device,
        device_uuid=row.device_uuid,
        started_at=row.started_at,
        case_hash=row.case_hash,
        source_hash=row.source_hash,
        env_id=row.env_id,
    )


def _environments(environment: Environment, wanted: Iterable[str]) -> dict[str, dict[str, str]]:
    """What may affect times, for each machine that made readings. The file describes one machine at its top, and others under
    `environments`."""
    found = {}
    for name in sorted(wanted):
        own = environment.environments.get(name)
        if own or name == environment.env_id:
            merged = environment.model_copy(update=own.entries() if own else {})
            found[name] = environment_properties(merged)
    return found


def _commit(environment: Environment) -> str:
    git = environment.git
    return printable(git.commit) + ("+" if git.dirty else "") if git else ""
