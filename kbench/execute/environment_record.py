"""The environment file of a run: the machine, then what was asked for, when, and from which code.

Rows name the machine they were measured on by its `env_id`, a hash of the device's kind, the driver and the packages.
Equal machines share one. The file describes the machine that the plan was made on at its top level, and all others under
`environments`, by their `env_id`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kbench.clocks import LockedClock
from kbench.config.plan import Plan
from kbench.results.environment import Environment, Git, Machine
from kbench.results.stamps import digest, now
from kbench.version import __version__

CHANGING = ("other_processes", "device_id", "device_count")
"""Entries of a machine that `env_id` leaves out: they differ between equal machines, or from run to run."""

SELECTING = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES")
"""Variables that choose a device. `env_id` leaves them out, because rows name their device by its UUID."""

GIT_LIMIT_S = 5
"""Limit for one question. Git takes tens of milliseconds, and some seconds on a network file system."""


def env_id(machine: Machine) -> str:
    """The hash by which rows name a machine."""
    kind = {name: value for name, value in machine.entries().items() if name not in CHANGING}
    variables = {name: value for name, value in machine.variables.items() if name not in SELECTING}
    return digest(kind | {"variables": variables})


def describe_run(plan: Plan, scope: str, locked: Sequence[LockedClock]) -> Environment:
    """The content of a new environment file. For `scope` see Executor."""
    catalog, source = plan.catalog, {"source": plan.source} if plan.source else {}
    places = {entry.provider: plan.info.providers[entry.provider].place for entry in plan.configurations}
    run = {
        "scope": scope,
        "locked_clocks": {clock.uuid: {"sm_mhz": clock.sm_mhz, "memory_mhz": clock.memory_mhz} for clock in locked},
        "config": {"path": str(plan.path), "sha": digest(plan.text), "text": plan.text, **source},
        "profile": plan.profile,
        "baseline": plan.baseline,
        "measure": plan.measure.model_dump(),
        # those below the working directory
        "places": {provider: place for provider, place in places.items() if place},
        "plugin_errors": [vars(error) for error in catalog.plugin_errors],
    }
    return describe_command(catalog.machine, plan.path.parent, **run)


def describe_command(machine: Machine, folder: Path, **run: Any) -> Environment:
    """What every environment file holds: the machine, the command, and the revision of the code in a folder. `run` has
    further entries."""
    entries = {
        "env_id": env_id(machine),
        **machine.entries(),
        "kbench": __version__,
        "command": command_line(),
        "started_at": now(),
        "git": find_revision(folder),
        **run,
    }
    return Environment.model_validate(entries)


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


def continue_run(before: Environment, present: Environment, sessions: int) -> Environment:
    """The content of a file that is continued: `before` is the file, and `present` what a new file would hold.

    Adds an entry about this run to `continued`, and sets the number of sessions.
    """
    assert before.config and present.config
    names = {"command", "git", "env_id", "locked_clocks"}
    if present.config.sha != before.config.sha:
        names.add("config")
    entry = {"date": present.started_at, **present.model_dump(include=names, exclude_unset=True)}
    earlier_entries = before.model_dump(exclude_unset=True, exclude={"finished_at", "interrupted"})
    measure = before.measure | {"sessions": sessions}
    changes = {"measure": measure, "places": present.places, "continued": [*before.continued, entry]}
    return Environment.model_validate(earlier_entries | changes)
