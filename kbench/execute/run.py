"""A whole run: config in, plan, measured cases, CSV and environment file out."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kbench.config import Config
from kbench.execute import history, progress
from kbench.execute.history import Continuing, Past
from kbench.execute.local import LocalExecutor
from kbench.execute.lock import command, device_key, file_key, hold
from kbench.execute.plan import Plan, plan
from kbench.execute.writer import Writer, probe
from kbench.results import ResultsError, Row, Status, digest, now
from kbench.version import __version__

PASSING = ("other_processes",)
"""What a sidecar says of the machine that changes from minute to minute, and so is no part of the machine's `env_id`."""


@dataclass
class Outcome:
    """What a run left behind. `begun` tells whether the sidecar knows of it: a file that is continued keeps its own until
    there is a row to add."""

    plan: Plan
    csv: Path
    moved: list[Path] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    interrupted: bool = False
    begun: bool = False

    @property
    def exit_code(self) -> int:
        """See "Exit codes" in the README."""
        if self.interrupted:
            return 130
        if any(row.status.failed for row in self.rows):
            return 1
        return 0 if any(row.status in (Status.OK, Status.CHECKED) for row in self.rows) else 3


@dataclass
class Prepared:
    """A config that has met its machine: the worker is up, names are checked, the plan is made."""

    config: Config
    executor: LocalExecutor
    plan: Plan

    def __enter__(self) -> Prepared:
        return self

    def __exit__(self, *exception: object) -> None:
        self.executor.stop()


def prepare(config: Config, note: Callable[[str], None]) -> Prepared:
    """Start a worker and lay out the plan. Raises ConfigError and WorkerLost; on return the caller owns the worker."""
    executor = LocalExecutor(config.plugins, note)
    try:
        return Prepared(config, executor, plan(config.resolve(executor.catalog), executor.catalog))
    except BaseException:
        executor.stop()
        raise


def execute(
    prepared: Prepared,
    out: Path,
    *,
    continuing: Continuing | None = None,
    wait: bool = True,
    note: Callable[[str], None] = lambda line: None,
) -> Outcome:
    """Measure everything that is not there yet, flushing case by case.

    Ctrl-C ends the run and keeps what was measured: KeyboardInterrupt only where that is nothing. Raises ResultsError when
    results cannot be written or continued, and Busy when another run has the device and there is no waiting for it.
    """
    layout, machine = prepared.plan, prepared.executor.catalog["environment"]
    path = out / f"{layout.sweep.path.stem}.csv"
    probe(path)
    if continuing == "append" and not path.exists():
        raise ResultsError(f"{path}: no such file to add sessions to; leave out --append to make it")
    with (
        hold(device_key(machine), layout.device, wait=wait, note=note),
        hold(file_key(path), str(path), wait=wait, note=note),
    ):
        past = history.read(path, layout, machine, continuing) if continuing and path.exists() else None
        for line in past.notes if past else ():
            note(line)
        return _measure(prepared, path, past, note)


def _measure(prepared: Prepared, path: Path, past: Past | None, note: Callable[[str], None]) -> Outcome:
    """Measure what `past` leaves to do, all of the plan without it. The device and the file are ours."""
    layout = past.plan if past else prepared.plan
    tasks = past.left if past else layout.tasks
    fresh = _environment(prepared)
    environment = _continued(past, fresh) if past and past.environment else fresh
    outcome = Outcome(layout, path, rows=list(past.rows) if past else [])
    if not tasks:
        note(f"{path}: nothing left to measure")
        return outcome
    with closing(Writer(path, layout.sweep.axes, past.keep if past else None)) as writer:
        outcome.moved = writer.moved
        outcome.begun = not past
        if outcome.begun:
            writer.write_environment(environment)
        with progress.listener(len(tasks)) as display:
            try:
                for rows in prepared.executor.run(tasks, display):
                    for row in rows:
                        row.env_id, row.device = fresh["env_id"], row.device or layout.device
                    if past:
                        past.agree(rows)
                    if not outcome.begun:
                        writer.write_environment(environment)
                        outcome.begun = True
                    writer.write(rows)
                    outcome.rows += rows
            except KeyboardInterrupt:
                outcome.interrupted = True
            finally:
                prepared.executor.stop()
        if outcome.begun:
            writer.write_environment(environment | {"finished_at": now(), "interrupted": outcome.interrupted})
    return outcome


ENDING = ("finished_at", "interrupted")
"""What the sidecar says once a run has ended. A run that was killed has neither."""


def _continued(past: Past, fresh: Mapping[str, Any]) -> dict[str, Any]:
    """The sidecar of a file that is continued: as it was, with the sessions there will be and a note of who goes on."""
    before = {name: value for name, value in (past.environment or {}).items() if name not in ENDING}
    entry = {"date": fresh["started_at"]} | {name: fresh[name] for name in ("command", "git", "env_id")}
    if fresh["config"]["sha"] != before["config"]["sha"]:
        entry["config"] = fresh["config"]
    sessions = past.plan.sweep.measure.sessions
    return before | {
        "measure": before["measure"] | {"sessions": sessions},
        "continued": [*before.get("continued", []), entry],
    }


def _environment(prepared: Prepared) -> dict[str, Any]:
    """The sidecar: the machine as the worker found it, then what was asked for, when, and from which code."""
    sweep, catalog = prepared.plan.sweep, prepared.executor.catalog
    machine = catalog["environment"]
    return {
        "env_id": digest({name: value for name, value in machine.items() if name not in PASSING}),
        **machine,
        "kbench": __version__,
        "command": command(),
        "started_at": now(),
        "git": _git(sweep.path.parent),
        "config": {"path": str(sweep.path), "sha": digest(sweep.text), "text": sweep.text},
        "profile": sweep.profile,
        "baseline": sweep.baseline,
        "measure": sweep.measure.model_dump(),
        "plugin_errors": catalog["plugin_errors"],
    }


def _git(folder: Path) -> dict[str, Any] | None:
    """Commit and dirtiness of the repository the config lies in, None outside one."""

    def ask(*arguments: str) -> str:
        command: Sequence[str] = ("git", "-C", str(folder), *arguments)
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()

    try:
        return {"commit": ask("rev-parse", "HEAD"), "dirty": bool(ask("status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.SubprocessError):
        return None
