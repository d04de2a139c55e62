"""Reads a results file that a run continues: its finished cases, the cases left to measure, and whether rows may be added.

A file can be continued when it contains only cases of the plan, each complete and with its rows in the plan's order. The
cases may be in any order. Only the last case may be incomplete, because a run may have been killed while it wrote the
rows. That case is measured again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from kbench.config.resolve import MAX_TASKS, Sweep
from kbench.errors import ResultsError
from kbench.execute.environment_record import MACHINE, find_differences, read_recorded_environment
from kbench.execute.plan import Plan
from kbench.protocol import Task
from kbench.results.case import Case, configuration_name, format_params
from kbench.results.environment import Environment
from kbench.results.reader import Results, read_results
from kbench.results.row import Row, csv_header
from kbench.results.vocabulary import Control, Role, Status

_SAME = "continue the file with its original config and options, or start a new file"

ResumeMode = Literal["resume", "append"]
"""How a run continues a results file: `resume` measures the missing cases, `append` adds sessions to a finished file."""


@dataclass(frozen=True)
class ExistingResults:
    """A results file that a run continues.

    plan         the plan with all its sessions, including the sessions in the file
    rows         the rows of finished cases
    left         the tasks of the plan that are not in the file
    cut          whether the file has more than `rows`: an incomplete case, or a part of a row
    environment  the environment file; None if the file has no rows
    notes        lines for the user: an incomplete case, and changes of the machine
    """

    path: Path
    plan: Plan
    rows: list[Row]
    left: tuple[Task, ...]
    cut: bool
    environment: Environment | None
    notes: list[str]

    @cached_property
    def _source_hashes(self) -> dict[str, str]:
        """The hash of the code of each configuration. The rows of a lost worker have none."""
        return {row.configuration_name: row.source_hash for row in self.rows if row.source_hash}

    @cached_property
    def _case_hashes(self) -> dict[Case, str]:
        return {row.case: row.case_hash for row in self.rows if row.case_hash}

    def agree(self, rows: Sequence[Row]) -> None:
        """Raise ResultsError if new rows come from other code than the rows of the file."""
        for row in rows:
            if row.source_hash and self._source_hashes.get(row.configuration_name, row.source_hash) != row.source_hash:
                raise refusal_error(self.path, [f"the code of {row.configuration_name} has changed"])
            if row.case_hash and self._case_hashes.get(row.case, row.case_hash) != row.case_hash:
                raise refusal_error(self.path, [f"the definition of {row.case.operator} has changed"])


def read_existing(
    path: Path, plan: Plan, machine: Mapping[str, Any], mode: ResumeMode, scope: str = "device"
) -> ExistingResults:
    """Read a file and decide how to continue it. `machine` has the entries of this machine; `scope` is a key of SCOPES.

    Raises ResultsError for a file or environment file that is damaged, has other columns, or does not fit the plan.
    """
    results = read_results(path)
    _check_columns(results, csv_header(plan.sweep.axes))
    environment = read_recorded_environment(path) if results.rows else None
    asked = recorded = plan.sweep.measure.sessions
    if environment:
        asked_of = {"scope": scope, "baseline": plan.sweep.baseline, "measure": plan.sweep.measure.model_dump()}
        if differences := find_differences(environment, Environment.model_validate(dict(machine) | asked_of)):
            raise refusal_error(path, differences)
        recorded = environment.measure["sessions"]
    layout = _with_sessions(plan, max(recorded, asked) if mode == "resume" else recorded)
    finished, whole = _find_finished(results, layout)
    if mode == "append":
        if results.torn or len(finished) < len(layout.tasks):
            count = layout.progress(len(finished))
            raise ResultsError(f"{path}: {count} are finished; finish the run with --resume before adding sessions")
        layout = _with_sessions(plan, recorded + asked)
    rows = list(results.rows[:whole])
    _refuse_other_weights(path, rows, plan.sweep)
    notes = [f"{path}: {layout.progress(len(finished))} are in the file"]
    left = tuple(task for task in layout.tasks if (task.session, task.case) not in finished)
    begun = results.lines[whole] if whole < len(results.rows) else results.torn
    if begun is not None:
        what = (
            "the incomplete case that begins here is measured again" if left else "the incomplete row here is removed"
        )
        notes.append(f"{path}:{begun}: {what}")
    others = [name for name in machine if name not in (*MACHINE[scope], "packages")] if scope == "device" else []
    before = environment.model_dump() if environment else dict(machine)
    if changed := [name for name in others if before.get(name) != machine[name]]:
        notes.append(
            f"{path}: the machine differs from that of the first run ({', '.join(changed)}); continuing anyway"
        )
    return ExistingResults(path, layout, rows, left, begun is not None, environment, notes)


def refusal_error(path: Path, differences: Sequence[str]) -> ResultsError:
    """The error for a file that cannot be continued."""
    return ResultsError(f"{path}: cannot be continued: {'; '.join(differences)}; undo that, or start a new file")


def _with_sessions(plan: Plan, sessions: int) -> Plan:
    if len(plan.sweep.cases) * sessions > MAX_TASKS:
        what = f"{len(plan.sweep.cases):,} cases in {sessions:,} sessions are too many"
        raise ResultsError(f"{plan.sweep.path}: {what}; cases times sessions may be at most {MAX_TASKS:,}")
    first = [task for task in plan.tasks if task.session == 0]
    tasks = tuple(dataclasses.replace(task, session=number) for number in range(sessions) for task in first)
    measure = plan.sweep.measure.model_copy(update={"sessions": sessions})
    return dataclasses.replace(plan, sweep=dataclasses.replace(plan.sweep, measure=measure), tasks=tasks)


def _check_columns(results: Results, wanted: Sequence[str]) -> None:
    """Raise ResultsError if the file has other columns than the run writes."""
    missing = [name for name in wanted if name not in results.header]
    extra = [name for name in results.header if name not in wanted]
    if missing or extra:
        what = f"it has no column {missing[0]}" if missing else f"it has a column {extra[0]}"
        raise ResultsError(
            f"{results.path}:1: written by another version of kbench or for another operator: {what}; move the file away to "
            "start anew"
        )


def _find_finished(results: Results, plan: Plan) -> tuple[set[tuple[int, Case]], int]:
    """The complete cases of the file with their sessions, and the number of their rows. Raises ResultsError for a row outside
    the plan."""
    path, tasks = results.path, {(task.session, task.case): task for task in plan.tasks}
    finished: set[tuple[int, Case]] = set()
    count = 0
    for key, members in groupby(results.rows, key=lambda row: (row.session, row.case)):
        rows = list(members)
        lines = results.lines[count : count + len(rows)]
        if key not in tasks:
            raise ResultsError(f"{path}:{lines[0]}: the case of this row is not in the sweep; {_SAME}")
        task = tasks[key]
        wanted = [(one.provider, format_params(one.params)) for one in task.configurations]
        names = [(row.provider, row.params) for row in rows if row.role is Role.PROVIDER]
        for line, name, expected in zip(lines, names, wanted, strict=False):
            if name != expected:
                what = f"found provider {configuration_name(*name)}, expected {configuration_name(*expected)}"
                raise ResultsError(f"{path}:{line}: {what}; {_SAME}")
        if len(names) > len(wanted):
            other = configuration_name(*names[len(wanted)])
            raise ResultsError(f"{path}:{lines[len(wanted)]}: this run has no provider {other}; {_SAME}")
        if len(names) < len(wanted) or not _has_controls(rows, task):
            if count + len(rows) < len(results.rows):
                what = "rows of this case are missing after this line"
                remedy = f"if you deleted lines of this case, delete its other lines too; otherwise {_SAME}"
                raise ResultsError(f"{path}:{lines[-1]}: {what}; {remedy}")
            break
        finished.add(key)
        count += len(rows)
    return finished, count


def _has_controls(rows: Sequence[Row], task: Task) -> bool:
    """Whether the rows of a case include its controls. A run writes the controls last, so an incomplete case lacks them."""
    timed = {row.configuration_name for row in rows if row.status is Status.OK}
    needed = {Control.COPY, Control.EMPTY} if timed else set()
    if task.baseline in timed:
        needed.add(Control.REPEAT)
    return needed <= {row.provider for row in rows if row.role is Role.CONTROL}


def _refuse_other_weights(path: Path, rows: Sequence[Row], sweep: Sweep) -> None:
    """The weights of a file are those of one file of shapes."""
    for row in rows:
        if row.weight != (weight := sweep.weights.get(row.case)):
            known = [number if number is not None else "not given" for number in (row.weight, weight)]
            raise refusal_error(path, [f"the weight of {row.case.label} was {known[0]} and is now {known[1]}"])
