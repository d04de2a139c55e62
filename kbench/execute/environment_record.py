"""What a run writes to its environment file: the machine, then what was asked for, when, and from which code.

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
from kbench.execute.git_revision import find_revision
from kbench.execute.plan import Plan
from kbench.protocol import Catalog, MachineInfo
from kbench.results.stamps import digest, now
from kbench.text import redact
from kbench.version import __version__

CHANGING = ("other_processes", "device_id", "device_count")
"""Entries of a machine that `env_id` leaves out: they differ between equal machines, or from run to run."""

SELECTING = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES")
"""Variables that choose a device. `env_id` leaves them out, because rows name their device by its UUID."""

FINAL_ENTRIES = ("finished_at", "interrupted")
"""Entries of a run that has ended. A run that was killed has neither."""


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
            "path": redact.redact_text(str(sweep.path)),
            "sha": digest(sweep.text),
            "text": redact.redact_text(sweep.text),
            **({"source": redact.redact_text(sweep.source)} if sweep.source else {}),
        },
        "profile": sweep.profile,
        "baseline": sweep.baseline,
        "measure": sweep.measure.model_dump(),
        "places": _places(plan, catalog),
        "plugin_errors": [
            {
                "plugin": redact.redact_text(error.plugin),
                "where": redact.redact_text(error.where),
                "message": redact.redact_text(error.message),
            }
            for error in catalog.plugin_errors
        ],
    }


def describe_command(machine: MachineInfo, folder: Path) -> dict[str, Any]:
    """The entries of every environment file: the machine, the command, and the revision of the code in a folder."""
    return {
        "env_id": env_id(machine),
        **machine.to_record(),
        "scope": "device",
        "kbench": __version__,
        "command": redact.command(command_line()),
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
    return {name: redact.redact_text(known[name].place) for name in names if name in known and known[name].place}


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
