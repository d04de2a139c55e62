"""The runs of a history: the results files below a folder, in the order in which they were measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from kbench.comparison.environment_differences import environment_properties
from kbench.errors import ResultsError
from kbench.results.environment import Environment, read_environment
from kbench.results.reader import read_results
from kbench.results.row import Row
from kbench.results.vocabulary import Control, Role, Status


@dataclass(frozen=True)
class Run:
    """A results file. `rows` are those of providers, whatever their status, and the copies that were timed."""

    path: Path
    rows: Sequence[Row]
    environment: Environment

    @cached_property
    def source(self) -> str:
        """The name of the config, or else of the file. Runs with the same source measure the same rows."""
        config = self.environment.config
        return Path(config.path).name if config and config.path else self.path.name

    @cached_property
    def started_at(self) -> str:
        """When its first row was measured; "" if that is not known."""
        return min((row.started_at for row in self.rows if row.started_at), default=self.environment.started_at or "")

    @property
    def commit(self) -> str:
        """The git commit of the code, with `+` if files were changed since; "" if it is not known."""
        git = self.environment.git
        if git is None:
            return ""
        return f"{git.commit}+" if git.dirty else git.commit

    @cached_property
    def facts(self) -> Mapping[str, Mapping[str, str]]:
        """What may affect times, for each machine by its `env_id`. The environment file describes one machine at its top, and
        others under `environments`."""
        whole = self.environment
        further = {name: whole.model_copy(update=machine.entries()) for name, machine in whole.environments.items()}
        return {
            name: environment_properties(machine)
            for name, machine in {whole.env_id or "": whole, **further}.items()
            if machine.known
        }


def read_runs(folder: Path) -> tuple[list[Run], list[str]]:
    """The runs of a folder and the folders below it, and notes on what cannot be read. A row that stands in two files counts
    once. Raises ResultsError if there is no run."""
    advice = f"`kbench run CONFIG -o {folder}/DATE` adds results to a history"
    if not folder.is_dir():
        raise ResultsError(f"{folder}: {'not a folder' if folder.exists() else 'no such folder'}; {advice}")
    runs, notes = [], []
    for path in sorted(folder.rglob("*.csv")):
        if any(part.startswith(".") for part in path.relative_to(folder).parts):
            continue
        try:
            results = read_results(path)
        except ResultsError as error:
            notes.append(str(error))
            continue
        environment, note = read_environment(path, expected=True)
        notes += [*results.warnings, *filter(None, [note])]
        runs.append(Run(path, [row for row in results.rows if _belongs(row)], environment))
    runs = _without_repeats(sorted(runs, key=lambda run: (run.started_at, run.path)))
    if not runs:
        problem = f"no results of a provider here; {advice}"
        if notes:
            problem = f"no results file here can be read: {notes[0]}"
        raise ResultsError(f"{folder}: {problem}")
    return runs, notes


def _belongs(row: Row) -> bool:
    return row.role is Role.PROVIDER or (row.provider == Control.COPY and row.status is Status.OK)


def _without_repeats(runs: Sequence[Run]) -> list[Run]:
    """The runs without rows that an earlier one has: a file was copied, and sessions were appended later. A run that adds no
    row of a provider is left out."""
    earlier: set[object] = set()
    runs_with_news = []
    for run in runs:
        rows = {_identity(row): row for row in run.rows}
        fresh = [row for identity, row in rows.items() if identity not in earlier]
        earlier.update(rows)
        if any(row.role is Role.PROVIDER for row in fresh):
            runs_with_news.append(replace(run, rows=fresh))
    return runs_with_news


def _identity(row: Row) -> tuple[object, ...]:
    return (row.case, row.provider, row.params, row.session, row.device_uuid, row.started_at, row.status, row.ms)
