"""The environment file of a run: what the run writes to it, and whether a later run may continue it.

It holds the machine, then what was asked for, when, and from which code.

Rows name the machine they were measured on by its `env_id`, a hash of the device's kind, the driver and the packages.
Equal machines share one. The file describes the machine that the plan was made on at its top level, and all others under
`environments`, by their `env_id`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.clocks.lock_card import LockedClock
from kbench.config.resolve import MAX_TASKS
from kbench.errors import ResultsError
from kbench.execute.git_revision import find_revision
from kbench.execute.plan import Plan
from kbench.protocol import Catalog, MachineInfo
from kbench.results import environment_file
from kbench.results.stamps import digest, now
from kbench.version import __version__

CHANGING = ("other_processes", "device_id", "device_count")
"""Entries of a machine that `env_id` leaves out: they differ between equal machines, or from run to run."""

SELECTING = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES")
"""Variables that choose a device. `env_id` leaves them out, because rows name their device by its UUID."""

FINAL_ENTRIES = ("finished_at", "interrupted")
"""Entries of a run that has ended. A run that was killed has neither."""

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

    def __init__(self, entries: Mapping[str, Any], write: Callable[[Mapping[str, Any]], None]) -> None:
        self._entries, self._write = dict(entries), write
        self.written = False

    def save(self) -> None:
        self._write(self._entries)
        self.written = True

    def add_machine(self, machine: MachineInfo) -> str:
        """Make sure that the file on disk describes a machine that has made rows. Returns its `env_id`."""
        name = env_id(machine)
        others = self._entries.get("environments") or {}
        known = name == self._entries["env_id"] or name in others
        if not known:
            self._entries["environments"] = {**others, name: machine.to_record()}
        if not known or not self.written:
            self.save()
        return name

    def finish(self, *, interrupted: bool) -> None:
        """Write down that the run has ended. Leaves a file alone to which nothing was added."""
        if self.written:
            self._entries |= {"finished_at": now(), "interrupted": interrupted}
            self.save()


def env_id(machine: MachineInfo) -> str:
    """The hash by which rows name a machine."""
    record = machine.to_record()
    kind = {name: value for name, value in record.items() if name not in CHANGING}
    variables = {name: value for name, value in machine.variables.items() if name not in SELECTING}
    return digest(kind | {"variables": variables})


def describe_run(plan: Plan, catalog: Catalog, scope: str, locked: Sequence[LockedClock] = ()) -> dict[str, Any]:
    """The entries of a new environment file. For `scope` see Executor."""
    sweep = plan.sweep
    return {
        **describe_command(catalog.machine, sweep.path.parent),
        "scope": scope,
        "locked_clocks": {each.uuid: {"sm_mhz": each.sm_mhz, "memory_mhz": each.memory_mhz} for each in locked},
        "config": {
            "path": str(sweep.path),
            "sha": digest(sweep.text),
            "text": sweep.text,
            **({"source": sweep.source} if sweep.source else {}),
        },
        "profile": sweep.profile,
        "baseline": sweep.baseline,
        "measure": sweep.measure.model_dump(),
        "places": _places(plan, catalog),
        "plugin_errors": [
            {"plugin": error.plugin, "where": error.where, "message": error.message} for error in catalog.plugin_errors
        ],
    }


def describe_command(machine: MachineInfo, folder: Path) -> dict[str, Any]:
    """The entries of every environment file: the machine, the command, and the revision of the code in a folder."""
    return {
        "env_id": env_id(machine),
        **machine.to_record(),
        "scope": "device",
        "kbench": __version__,
        "command": command_line(),
        "started_at": now(),
        "git": find_revision(folder),
    }


def command_line() -> list[str]:
    """The command line of this process, as the user would type it."""
    return ["kbench", *sys.argv[1:]]


def _places(plan: Plan, catalog: Catalog) -> dict[str, str]:
    """Where each provider is defined, `kernels/mine.py:12`, if it is below the working directory."""
    known = catalog.providers(plan.sweep.operator)
    names = dict.fromkeys(one.provider for one in plan.sweep.configurations)
    return {name: known[name].place for name in names if name in known and known[name].place}


def continue_run(before: Mapping[str, Any], present: Mapping[str, Any], sessions: int) -> dict[str, Any]:
    """The entries of a file that is continued: `before` is the file, and `present` what a new file would hold.

    Adds an entry about this run to `continued`, and sets the number of sessions.
    """
    entry = {"date": present["started_at"]} | {
        name: present[name] for name in ("command", "git", "env_id", "locked_clocks")
    }
    if present["config"]["sha"] != before["config"]["sha"]:
        entry["config"] = present["config"]
    kept = {name: value for name, value in before.items() if name not in FINAL_ENTRIES}
    return kept | {
        "measure": before["measure"] | {"sessions": sessions},
        "places": present["places"],
        "continued": [*(before.get("continued") or []), entry],
    }


def read_recorded_environment(path: Path) -> tuple[dict[str, Any], str]:
    """The entries of the environment file beside a results file, and a note on invalid ones.

    Raises ResultsError when it does not say how the rows were measured.
    """
    beside = environment_file.environment_path(path)
    try:
        found, left_out = environment_file.read_entries(beside)
    except FileNotFoundError:
        raise ResultsError(
            f"{beside}: no such file, so kbench does not know how {path} was measured; restore it, or start a new file"
        ) from None
    except ResultsError as error:
        raise ResultsError(f"{error}; restore it, or start a new file") from None
    sessions = (found.get("measure") or {}).get("sessions")
    needed = {
        "env_id": found.get("env_id"),
        "config": (found.get("config") or {}).get("sha") is not None,
        "measure.sessions": isinstance(sessions, int) and 0 < sessions <= MAX_TASKS,
    }
    missing = [name for name, there in needed.items() if not there]
    missing += [name for name in left_out if name.partition(".")[0] in ("continued", "environments", "scope")]
    if missing:
        what = f"invalid or missing: {', '.join(missing[:4])}"
        raise ResultsError(f"{beside}: does not say how {path} was measured ({what}); restore it, or start a new file")
    return found, environment_file.nonsense(beside, left_out)


def find_differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The reasons why this run must not continue the file, a few words for each."""
    begun = before.get("scope", "device")
    if begun != now["scope"]:
        return [f"it was begun {SCOPES.get(begun, begun)}, and this run measures {SCOPES[now['scope']]}"]
    old, new = _select_relevant(before), _select_relevant(now)
    names = dict.fromkeys([*old, *new])
    return [
        f"{name} was {_written(old.get(name))} and is now {_written(new.get(name))}"
        for name in names
        if old.get(name) != new.get(name)
    ]


def _written(value: Any) -> str:
    return "not set" if value is None else str(value)


def _select_relevant(environment: Mapping[str, Any]) -> dict[str, Any]:
    scope = environment.get("scope", "device")
    parts: dict[str, Any] = {name: environment.get(name) for name in (*MACHINE[scope], "baseline")}
    packages: Mapping[str, str] = environment.get("packages") or {}
    names = ["kbench"] if scope == "cluster" else [name for name in packages if name not in UNRELATED_PACKAGES]
    parts |= {name: packages.get(name) for name in names}
    return parts | {name: value for name, value in environment["measure"].items() if name not in UNRELATED_KEYS}
