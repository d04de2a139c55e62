"""A results file whose rows are measured again: rebuilds how they were measured from the file and its environment file.

The cases come from the rows, the settings from the environment file, and the code from the config and plug-ins that it names. A
file is refused if any of them is not as it was.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kbench.analysis import rows_of
from kbench.comparison.join import Key
from kbench.config.load import Config, load_config
from kbench.config.schema import Measure
from kbench.errors import ConfigError, ResultsError
from kbench.execute.environment_record import RESOLVED, SCOPES, find_differences, read_recorded_environment
from kbench.execute.executor import Executor
from kbench.execute.executors.prepare import prepare
from kbench.execute.existing_results import ExistingResults, read_records
from kbench.execute.plan import Plan, Task
from kbench.execute.run import PreparedRun, RunOptions, RunResult, execute, execute_more
from kbench.protocol import MeasureSettings
from kbench.results import table
from kbench.results.case import Case
from kbench.results.row import Row, csv_header
from kbench.results.stamps import digest
from kbench.results.vocabulary import Role


@dataclass(frozen=True)
class Purpose:
    """Why rows are measured again, for the errors of a file whose rows cannot be measured.

    anew       what to do if the file does not say enough
    otherwise  completes every remedy: how to do without
    """

    anew: str
    otherwise: str = ""


RESOLVE = Purpose("measure both files again", ", or leave out --resolve")
REPEAT = Purpose("measure the whole config again")


@dataclass(frozen=True)
class RecordedSide:
    """A results file whose rows are measured again.

    axes         names of the axis columns
    environment  the entries of the environment file
    measure      the settings with which its rows were measured
    config       the config, as it is here
    purpose      why its rows are measured again
    """

    csv: Path
    axes: tuple[str, ...]
    environment: Mapping[str, Any]
    measure: Measure
    config: Config
    purpose: Purpose

    @classmethod
    def read(cls, csv: Path, purpose: Purpose = RESOLVE) -> RecordedSide:
        """Raises ResultsError for a file whose rows cannot be measured here."""
        frame = table.read_results(csv)
        environment, _ = read_recorded_environment(csv)
        if (scope := environment.get("scope", "device")) != "device":
            raise refusal(csv, purpose, f"they were measured {SCOPES.get(scope, scope)}", purpose.anew)
        try:
            measure = Measure.model_validate(environment["measure"])
        except ValidationError:
            why = "the environment file has settings that kbench does not know"
            raise refusal(csv, purpose, why, purpose.anew) from None
        return cls(csv, tuple(table.axes(frame)), environment, measure, _load(csv, environment, purpose), purpose)

    def check(self, keys: Collection[Key], note: Callable[[str], None]) -> None:
        """Raise ResultsError if the rows with these keys cannot be measured here as they were measured before, or if the file
        cannot take more rows."""
        self._end()
        rows = self._rows()
        with self._prepared(note) as run:
            self._narrow(run.plan, run.executor, rows, keys)

    def measure_again(self, keys: Collection[Key], note: Callable[[str], None]) -> None:
        """Measure the rows with these keys in one more session, and append them to the file.

        Raises KeyboardInterrupt, ResultsError, ExecutionError and WorkerLost. Finished cases are kept.
        """
        with self._prepared(note) as run:

            def read() -> ExistingResults:
                end, rows = self._end(), self._rows()
                plan = self._narrow(run.plan, run.executor, rows, keys)
                environment = {**read_recorded_environment(self.csv)[0], RESOLVED: True}
                return ExistingResults(
                    self.csv, plan, rows, plan.tasks, end, cut=False, environment=environment, notes=[]
                )

            done = execute_more(run, self.csv, read, RunOptions(every_case=False), note)
        if done.interrupted:
            raise KeyboardInterrupt

    def measure_anew(
        self, keys: Collection[Key], options: RunOptions, note: Callable[[str], None], *, timer: str = ""
    ) -> RunResult:
        """Measure the rows with these keys in one session, and write them to a new file in the folder of `options`. `timer`
        replaces that of the file. Raises what `check` and `execute` raise."""
        with self._prepared(note) as run:
            plan = self._narrow(run.plan, run.executor, self._rows(), keys)
            timer = timer or self.measure.timer
            measure = self.measure.model_copy(update={**self.environment["measure"], "sessions": 1, "timer": timer})
            tasks = tuple(replace(task, session=0, settings=replace(task.settings, timer=timer)) for task in plan.tasks)
            run.plan = replace(plan, sweep=replace(plan.sweep, measure=measure), tasks=tasks)
            return execute(run, options, note)

    def _end(self) -> int:
        """The number of bytes of the file. Raises ResultsError if its last line is incomplete."""
        _, records, torn = read_records(self.csv, csv_header(self.axes))
        if torn:
            raise ResultsError(f"{self.csv}:{torn}: the last line is incomplete; delete it")
        return records[-1].end

    def _rows(self) -> list[Row]:
        return rows_of(table.read_results(self.csv))

    def _prepared(self, note: Callable[[str], None]) -> PreparedRun:
        """The plan of the config, and an executor that is about to measure. Raises ResultsError."""
        try:
            return prepare(self.config, RunOptions(), note)
        except ConfigError as error:
            why = f"the config cannot be used: {error.issues[0]}"
            raise refusal(self.csv, self.purpose, why, "mend that") from None

    def _narrow(self, plan: Plan, executor: Executor, rows: Sequence[Row], keys: Collection[Key]) -> Plan:
        """The plan of one more session of these rows. Raises ResultsError if it would not be measured as before."""
        now = executor.catalog.machine.to_record() | {
            "scope": executor.scope,
            "baseline": self.environment.get("baseline"),
            "measure": self.environment["measure"],
        }
        if differences := find_differences(self.environment, now):
            raise refusal(
                self.csv,
                self.purpose,
                "; ".join(differences),
                "use the machine, packages and settings that the file was measured with",
            )
        shared = [name for name, _ in next(iter(keys)).axes]  # the axes that both files have
        wanted: dict[Any, tuple[Case, dict[str, Row]]] = {}
        for row in rows:
            if row.role == Role.PROVIDER and joined_key(row, shared) in keys:
                wanted.setdefault(row.case.key, (row.case, {}))[1][row.configuration_name] = row
        known = {one.name: one for one in plan.sweep.configurations}
        code = executor.catalog.providers(plan.sweep.operator)
        for row in (row for _, named in wanted.values() for row in named.values()):
            if row.provider not in code:
                why = f"the file has rows of provider {row.provider}, which is not registered here"
                raise refusal(self.csv, self.purpose, why, "restore or install the plug-in that defines it")
            if row.configuration_name not in known:
                why = (
                    f"the file has rows of {row.configuration_name}, but the config {self.config.path} does not contain that "
                    "name: these rows came from a command-line option"
                )
                raise refusal(self.csv, self.purpose, why, self.purpose.anew)
            if row.source_hash and code[row.provider].source_hash != row.source_hash:
                raise refusal(
                    self.csv,
                    self.purpose,
                    f"the code of {row.provider} has changed{self._revision()}",
                    "compare revisions with kbench ab",
                )
        settings = MeasureSettings(
            **{each.name: getattr(self.measure, each.name) for each in dataclasses.fields(MeasureSettings)}
        )
        session = max(row.session for row in rows) + 1
        needs = plan.tasks[0].needs if plan.tasks else {}
        tasks = tuple(
            Task(case, tuple(known[name] for name in named), self._baseline(named), settings, session, needs, True)
            for case, named in wanted.values()
        )
        sweep = replace(
            plan.sweep,
            axes=self.axes,
            cases=tuple(task.case for task in tasks),
            measure=self.measure,
            models={row.case.key: row.model for row in rows},
            weights={row.case.key: row.weight for row in rows if row.weight is not None},
        )
        return replace(plan, sweep=sweep, tasks=tasks)

    def _baseline(self, names: Collection[str]) -> str | None:
        baseline = self.environment.get("baseline")
        return baseline if baseline in names else None

    def _revision(self) -> str:
        """What the file says about the revision of the code; "" if nothing."""
        commit = str((self.environment.get("git") or {}).get("commit") or "")
        return f" since commit {commit[:9]}" if commit else ""


def refusal(csv: Path, purpose: Purpose, why: str, remedy: str) -> ResultsError:
    """The error for a file whose rows cannot be measured as before."""
    return ResultsError(f"{csv}: its rows cannot be measured again here: {why}; {remedy}{purpose.otherwise}")


def _load(csv: Path, environment: Mapping[str, Any], purpose: Purpose) -> Config:
    """The config that a file was measured with. Raises ResultsError."""
    recorded = environment["config"]
    path = Path(str(recorded.get("path", ""))).expanduser()
    if source := recorded.get("source"):
        why = f"they were measured with the script or problem {source}, not with a config"
        raise refusal(csv, purpose, why, "measure it again with kbench run")
    if not path.is_file():
        if path.is_absolute():
            raise refusal(csv, purpose, f"there is no config {path}", "restore it there")
        raise refusal(
            csv, purpose, f"the config {path} is not here", "start kbench in the folder where they were measured"
        )
    try:
        config = load_config(
            path, profile=environment.get("profile") or "none", plugins=list(_plugins(environment.get("command") or []))
        )
    except ConfigError as error:
        raise refusal(csv, purpose, f"the config cannot be loaded: {error.issues[0]}", "mend that") from None
    if digest(config.text) != recorded["sha"]:
        raise refusal(csv, purpose, f"the config {path} has changed", "restore it as it was")
    return config


def _plugins(command: Sequence[str]) -> Iterator[str]:
    """The plug-in files that a command line names."""
    for word, following in pairwise([*command, ""]):
        if word == "--plugin":
            yield str(Path(following).expanduser())
        elif word.startswith("--plugin="):
            yield str(Path(word.partition("=")[2]).expanduser())


def joined_key(row: Row, axes: Sequence[str]) -> Key:
    """The key by which a comparison knows a row. `axes` are those that both files have."""
    case = row.case
    return Key(case.operator, row.provider, row.params, tuple((name, case.axes[name]) for name in axes), case.dtype)
