"""The environment file of a run: what the run writes to it, and whether a later run may continue it.

It holds the machine, then what was asked for, when, and from which code.

Rows name the machine they were measured on by its `env_id`, a hash of the device's kind, the driver and the packages.
Equal machines share one. The file describes the machine that the plan was made on at its top level, and all others under
`environments`, by their `env_id`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kbench.clocks import LockedClock
from kbench.config.resolve import MAX_TASKS
from kbench.errors import ResultsError
from kbench.execute.plan import Plan
from kbench.protocol import Catalog
from kbench.results.environment import Environment, Git, Machine, environment_path, read_environment
from kbench.results.stamps import digest, now
from kbench.version import __version__

CHANGING = ("other_processes", "device_id", "device_count")
"""Entries of a machine that `env_id` leaves out: they differ between equal machines, or from run to run."""

SELECTING = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES")
"""Variables that choose a device. `env_id` leaves them out, because rows name their device by its UUID."""

GIT_LIMIT_S = 5
"""Limit for one question. Git takes tens of milliseconds, and some seconds on a network file system."""

MACHINE = {
    "device": ("device_type", "device", "device_id", "cuda", "hip", "nvcc", "triton_interpreter"),
    "host": ("device_type", "cuda", "hip", "nvcc", "triton_interpreter"),
    "cluster": ("device_type",),
}
"""Entries of the environment file that must not change when a run continues, for each scope of a run. The versions of packages
must not change either; in a cluster this holds for kbench only. If another entry changes (driver, limits, variables), kbench
prints a note."""

SCOPES = {"device": "on one device", "host": "with --devices", "cluster": "with --scheduler"}

UNRELATED_PACKAGES = ("numpy", "pandas")
"""Packages that do not affect a measurement."""

UNRELATED_KEYS = ("sessions", "timeout_s", "build_timeout_s", "kernels")
"""Keys of `measure` that do not affect a measurement."""


class EnvironmentRecord:
    """The content of an environment file, and when it is written.

    A new file is written at once. A file that is continued stays as it is until there is a row to add.
    """

    def __init__(self, environment: Environment, write: Callable[[Environment], None]) -> None:
        self._environment, self._write = environment, write
        self.written = False

    def save(self) -> None:
        self._write(self._environment)
        self.written = True

    def add_machine(self, machine: Machine) -> str:
        """Make sure that the file on disk describes a machine that has made rows. Returns its `env_id`."""
        name, others = env_id(machine), self._environment.environments
        known = name == self._environment.env_id or name in others
        if not known:
            self._environment.environments = {**others, name: machine}
        if not known or not self.written:
            self.save()
        return name

    def finish(self, *, interrupted: bool) -> None:
        """Write down that the run has ended. Leaves a file alone to which nothing was added."""
        if self.written:
            self._environment.finished_at, self._environment.interrupted = now(), interrupted
            self.save()


def env_id(machine: Machine) -> str:
    """The hash by which rows name a machine."""
    record = machine.entries()
    kind = {name: value for name, value in record.items() if name not in CHANGING}
    variables = {name: value for name, value in machine.variables.items() if name not in SELECTING}
    return digest(kind | {"variables": variables})


def describe_run(plan: Plan, catalog: Catalog, scope: str, locked: Sequence[LockedClock] = ()) -> Environment:
    """The content of a new environment file. For `scope` see Executor."""
    sweep = plan.sweep
    source = {"source": sweep.source} if sweep.source else {}
    run = {
        "scope": scope,
        "locked_clocks": {each.uuid: {"sm_mhz": each.sm_mhz, "memory_mhz": each.memory_mhz} for each in locked},
        "config": {"path": str(sweep.path), "sha": digest(sweep.text), "text": sweep.text, **source},
        "profile": sweep.profile,
        "baseline": sweep.baseline,
        "measure": sweep.measure.model_dump(),
        "places": _places(plan, catalog),
        "plugin_errors": [vars(error) for error in catalog.plugin_errors],
    }
    return describe_command(catalog.machine, sweep.path.parent, **run)


def describe_command(machine: Machine, folder: Path, **run: Any) -> Environment:
    """What every environment file holds: the machine, the command, and the revision of the code in a folder. `run` are more
    entries."""
    common = {"kbench": __version__, "command": command_line(), "started_at": now(), "git": find_revision(folder)}
    return Environment.model_validate({"env_id": env_id(machine), **machine.entries(), **common, **run})


def find_revision(folder: Path) -> Git | None:
    """The commit of a folder; None outside a repository."""
    commit = _ask_git(folder, "rev-parse", "--verify", "HEAD")
    if commit is None:
        return None
    changes = _ask_git(folder, "status", "--porcelain", "--untracked-files=no")
    return Git(commit=commit.strip(), dirty=None if changes is None else bool(changes))


def _ask_git(folder: Path, *question: str) -> str | None:
    """What git answers; None if it is not installed, refuses, or takes too long."""
    command = ["git", "--no-optional-locks", "-C", str(folder), *question]
    try:
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=GIT_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None


def command_line() -> list[str]:
    """The command line of this process, as the user would type it."""
    return ["kbench", *sys.argv[1:]]


def _places(plan: Plan, catalog: Catalog) -> dict[str, str]:
    """Where each provider is defined, `kernels/mine.py:12`, if it is below the working directory."""
    known = catalog.providers(plan.sweep.operator)
    names = dict.fromkeys(one.provider for one in plan.sweep.configurations)
    return {name: known[name].place for name in names if name in known and known[name].place}


def continue_run(before: Environment, present: Environment, sessions: int) -> Environment:
    """The content of a file that is continued: `before` is the file, and `present` what a new file would hold.

    Adds an entry about this run to `continued`, and sets the number of sessions.
    """
    assert before.config and present.config
    names = {"command", "git", "env_id", "locked_clocks"}
    if present.config.sha != before.config.sha:
        names.add("config")
    entry = {"date": present.started_at, **present.model_dump(include=names, exclude_unset=True)}
    kept = before.model_dump(exclude_unset=True, exclude={"finished_at", "interrupted"})
    return Environment.model_validate(
        kept
        | {
            "measure": before.measure | {"sessions": sessions},
            "places": present.places,
            "continued": [*before.continued, entry],
        }
    )


def read_recorded_environment(path: Path) -> Environment:
    """The environment file beside a results file. Raises ResultsError when it does not say how the rows were measured."""
    beside = environment_path(path)
    found, note = read_environment(path)
    sessions = found.measure.get("sessions")
    needed = {
        "env_id": found.env_id,
        "config": found.config and found.config.sha is not None,
        "measure.sessions": isinstance(sessions, int) and 0 < sessions <= MAX_TASKS,
    }
    missing = ", ".join(name for name, known in needed.items() if not known)
    if missing:
        what = note or f"{beside}: does not say how {path} was measured (invalid or missing: {missing})"
        if not beside.exists():
            what = f"{beside}: no such file, so kbench does not know how {path} was measured"
        raise ResultsError(f"{what}; restore it, or start a new file")
    return found


def find_differences(before: Environment, now: Environment) -> list[str]:
    """The reasons why this run must not continue the file, a few words for each."""
    if before.scope != now.scope:
        begun = SCOPES.get(before.scope, before.scope)
        return [f"it was begun {begun}, and this run measures {SCOPES[now.scope]}"]
    old, new = _select_relevant(before), _select_relevant(now)
    names = dict.fromkeys([*old, *new])
    return [
        f"{name} was {_written(old.get(name))} and is now {_written(new.get(name))}"
        for name in names
        if old.get(name) != new.get(name)
    ]


def _written(value: Any) -> str:
    return "not set" if value is None else str(value)


def _select_relevant(environment: Environment) -> dict[str, Any]:
    scope, packages = environment.scope, environment.packages
    parts: dict[str, Any] = {name: getattr(environment, name) for name in (*MACHINE[scope], "baseline")}
    names = ["kbench"] if scope == "cluster" else [name for name in packages if name not in UNRELATED_PACKAGES]
    parts |= {name: packages.get(name) for name in names}
    return parts | {name: value for name, value in environment.measure.items() if name not in UNRELATED_KEYS}
