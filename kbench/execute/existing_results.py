"""Reads a results file that a run continues: its finished cases, the cases left to measure, and whether rows may be added.

A file can be continued if it was measured in the same way, and has only cases of the plan, in any order, with their rows. Only
the case of its last row may be incomplete, because a run may have been killed while it wrote. It is measured again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from kbench.config.plan import Plan
from kbench.errors import ResultsError
from kbench.protocol import Task
from kbench.results.case import Case
from kbench.results.environment import Environment, environment_path, read_environment
from kbench.results.reader import Results, read_results
from kbench.results.row import Row, csv_header
from kbench.results.vocabulary import Control, Status
from kbench.text import terminal
from kbench.text.words import list_words

_SAME = "continue the file with its original config and options, or start a new file"

ResumeMode = Literal["resume", "append"]
"""How a run continues a results file: `resume` measures the missing cases, `append` adds sessions to a finished file."""

DEVICES = {
    "device": "the current one",
    "host": "those of --devices",
    "cluster": "those of --scheduler",
}
"""Where the rows of one file come from, by the scope of a run."""

DECISIVE = ("device_type", "device", "cuda", "hip", "nvcc", "triton_interpreter")
"""Entries of a machine that must not change between the rows of a file. If another one changes, kbench prints a note."""

UNRELATED = ("numpy", "pandas", "sessions", "timeout_s", "build_timeout_s", "kernels")
"""Packages and keys of `measure` that do not affect a measurement."""


@dataclass(frozen=True)
class StartingPoint:
    """What a run starts from: an empty file, or the finished cases of the file that it continues.

    plan         the plan with all its sessions, including the sessions in the file
    remaining    the tasks of the plan that are not in the file
    rows         the rows of finished cases; None if a new file begins
    environment  the environment file; None if the file has no rows
    """

    path: Path
    plan: Plan
    remaining: tuple[Task, ...]
    rows: list[Row] | None = None
    environment: Environment | None = None

    @cached_property
    def _case_hashes(self) -> dict[Case, str]:
        """The hash of the definition of each case. The rows of a lost worker have none."""
        return {row.case: row.case_hash for row in self.rows or () if row.case_hash}

    def agree(self, rows: Sequence[Row]) -> None:
        """Raise ResultsError if new rows have another definition of a case than the rows of the file."""
        for row in rows:
            if row.case_hash and self._case_hashes.get(row.case, row.case_hash) != row.case_hash:
                raise _refusal(self.path, [f"the definition of {row.case.operator} has changed"])


def read_existing(path: Path, plan: Plan, mode: ResumeMode, scope: str) -> StartingPoint:
    """Read a file and decide how to continue it. `scope` is a key of DEVICES. Notes name an incomplete case, and changes of the
    machine.

    Raises ResultsError for a file or environment file that is damaged, has other columns, or does not fit the plan.
    """
    results, machine = read_results(path), plan.catalog.machine
    if odd_columns := sorted({*results.header} ^ {*csv_header(plan.info.columns)}):
        message = f"it has other columns than this run writes ({list_words(odd_columns, 4)})"
        raise ResultsError(f"{path}:1: {message}; move the file away to start anew")
    sessions = recorded = plan.measure.sessions
    environment = _recorded_environment(path) if results.rows else None
    if environment:
        run = {
            "scope": scope,
            "baseline": plan.baseline,
            "measure": plan.measure.model_dump(),
        }
        now = Environment.model_validate(machine.entries() | run)
        if differences := _differences(_decisive(environment), _decisive(now)):
            raise _refusal(path, differences)
        recorded = environment.measure["sessions"]
    whole = plan.with_sessions(max(recorded, sessions) if mode == "resume" else recorded)
    finished = _finished(results, whole)
    if mode == "append":
        if results.torn or len(finished) < len(whole.tasks):
            counts = f"{whole.progress(len(finished))} are finished"
            raise ResultsError(f"{path}: {counts}; finish the run with --resume before adding sessions")
        whole = plan.with_sessions(recorded + sessions)
    keeps = [(row.session, row.case) in finished for row in results.rows]
    rows = list(results.only(keeps).rows)
    code = plan.catalog.providers(plan.operator)
    for row in rows:
        if row.of_provider and row.source_hash not in ("", code[row.provider].source_hash):
            raise _refusal(path, [f"the code of {row.configuration_name} has changed"])
        name = f"the weight of {row.case.label}"
        if differences := _differences({name: row.weight}, {name: plan.weights.get(row.case)}):
            raise _refusal(path, differences)
    remaining = tuple(task for task in whole.tasks if (task.session, task.case) not in finished)
    terminal.note(f"{path}: {whole.progress(len(finished))} are in the file")
    begun = next((line for line, keeps_row in zip(results.lines, keeps, strict=True) if not keeps_row), results.torn)
    if begun is not None:
        message = "the incomplete row here is removed"
        if remaining:
            message = "the incomplete case that begins here is measured again"
        terminal.note(f"{path}:{begun}: {message}")
    if environment and scope != "cluster":
        before, after = environment.entries(), machine.entries()
        if changed := [name for name in after if name != "packages" and before.get(name) != after[name]]:
            message = f"the machine differs from that of the first run ({', '.join(changed)})"
            terminal.note(f"{path}: {message}; continuing anyway")
    return StartingPoint(path, whole, remaining, rows, environment)


def _refusal(path: Path, differences: Sequence[str]) -> ResultsError:
    """The error for a file that cannot be continued."""
    return ResultsError(f"{path}: cannot be continued: {'; '.join(differences)}; undo that, or start a new file")


def _recorded_environment(path: Path) -> Environment:
    """The environment file beside a results file. Raises ResultsError when it does not say how the rows were measured."""
    environment, note = read_environment(path)
    says = environment.env_id and environment.config and isinstance(environment.measure.get("sessions"), int)
    if not says:
        message = note or f"{environment_path(path)}: does not say how {path} was measured"
        raise ResultsError(f"{message}; restore it, or start a new file")
    return environment


def _decisive(environment: Environment) -> dict[str, Any]:
    """What must be the same for all rows of a file. The hosts of a cluster may differ."""
    machine = {name: getattr(environment, name) for name in DECISIVE} | environment.packages
    if environment.scope == "cluster":
        machine = {name: machine.get(name) for name in ("device_type", "kbench")}
    entries = {
        **machine,
        "devices": DEVICES.get(environment.scope),
        "baseline": environment.baseline,
        **environment.measure,
    }
    return {name: value for name, value in entries.items() if name not in UNRELATED}


def _differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    def text(value: Any) -> str:
        return "not set" if value is None else str(value)

    return [
        f"{name} was {text(old.get(name))} and is now {text(new.get(name))}"
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]


def _finished(results: Results, plan: Plan) -> set[tuple[int, Case]]:
    """The complete cases of the file with their sessions. Raises ResultsError for a row outside the plan, and for a case that
    lacks a row and is not that of the last row."""
    tasks = {(task.session, task.case): task for task in plan.tasks}
    lines: dict[tuple[int, Case], list[int]] = {}
    for number, (row, line) in enumerate(zip(results.rows, results.lines, strict=True)):
        task = tasks.get((row.session, row.case))
        if task is None:
            raise ResultsError(f"{results.path}:{line}: the case of this row is not in the sweep; {_SAME}")
        names = {configuration.name for configuration in task.configurations}
        if row.of_provider and row.configuration_name not in names:
            message = f"this run has no provider {row.configuration_name}"
            raise ResultsError(f"{results.path}:{line}: {message}; {_SAME}")
        lines.setdefault((row.session, row.case), []).append(number)
    finished = set()
    for key, numbers in lines.items():
        if _is_complete([results.rows[number] for number in numbers], tasks[key]):
            finished.add(key)
        elif len(results.rows) - 1 not in numbers:
            present = {results.rows[number].configuration_name for number in numbers}
            names = {configuration.name for configuration in tasks[key].configurations} - present
            whose = f" ({list_words(sorted(names))})" if names else ""
            message = f"rows of this case are missing{whose}: if you deleted them, delete its other lines too"
            raise ResultsError(f"{results.path}:{results.lines[numbers[0]]}: {message}; otherwise {_SAME}")
    return finished


def _is_complete(rows: Sequence[Row], task: Task) -> bool:
    """Whether the rows of a case are all there. A run writes the controls last."""
    of_providers = {row.configuration_name: row for row in rows if row.of_provider}
    timed = {name for name, row in of_providers.items() if row.status is Status.OK}
    controls = {Control.COPY, Control.EMPTY} if timed else set()
    if task.baseline in timed:
        controls.add(Control.REPEAT)
    complete = of_providers.keys() == {configuration.name for configuration in task.configurations}
    return complete and not controls - {row.control for row in rows}
