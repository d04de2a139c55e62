"""A whole run: config in, plan, measured cases, CSV and environment file out."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kbench import __version__
from kbench.config import Config
from kbench.execute import progress
from kbench.execute.local import LocalExecutor
from kbench.execute.plan import Plan, plan
from kbench.results import Row, Status, Writer, digest, now


@dataclass
class Outcome:
    """What a run left behind."""

    plan: Plan
    csv: Path
    moved: list[Path]
    rows: list[Row] = field(default_factory=list)
    interrupted: bool = False

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


def execute(prepared: Prepared, out: Path) -> Outcome:
    """Measure everything, flushing case by case. Ctrl-C ends the run and keeps what was measured. Raises OSError when the
    results cannot be written."""
    layout = prepared.plan
    writer = Writer(out / f"{layout.sweep.path.stem}.csv", layout.sweep.axes)
    environment = _environment(prepared)
    writer.write_environment(environment)
    outcome = Outcome(layout, writer.path, writer.moved)
    with progress.listener(len(layout.tasks)) as display:
        try:
            for rows in prepared.executor.run(layout.tasks, display):
                for row in rows:
                    row.env_id, row.device = environment["env_id"], row.device or layout.device
                writer.write(rows)
                outcome.rows += rows
        except KeyboardInterrupt:
            outcome.interrupted = True
        finally:
            prepared.executor.stop()
    writer.write_environment(environment | {"finished_at": now(), "interrupted": outcome.interrupted})
    return outcome


def _environment(prepared: Prepared) -> dict[str, Any]:
    """The sidecar: the machine as the worker found it, then what was asked for, when, and from which code."""
    sweep, catalog = prepared.plan.sweep, prepared.executor.catalog
    machine = catalog["environment"]
    return {
        "env_id": digest(machine),
        **machine,
        "kbench": __version__,
        "command": ["kbench", *sys.argv[1:]],
        "started_at": now(),
        "git": _git(sweep.path.parent),
        "config": {"path": str(sweep.path), "sha": digest(sweep.text), "text": sweep.text},
        "profile": sweep.profile,
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
