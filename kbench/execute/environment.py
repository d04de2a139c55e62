"""The environment sidecar of a run: the machine as the worker found it, then what was asked for, when, from which code.

Rows name the environment they were measured in by its `env_id`: a hash of what the machine is, its device's kind, its
driver and its packages, so that equal machines share one. The sidecar begins with the machine that the plan was made on;
`environments` holds every other that has made rows, by its `env_id`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.execute.lock import command
from kbench.execute.plan import Plan
from kbench.results import digest, now
from kbench.version import __version__

PASSING = ("other_processes", "device_id", "device_count")
"""What a machine says of itself that is no part of its kind: what runs beside, which exemplar it is, how many it sees."""

SELECTING = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES")
"""Variables that choose an exemplar, which the rows name by its UUID."""

ENDING = ("finished_at", "interrupted")
"""What the sidecar says once a run has ended. A run that was killed has neither."""


def env_id(machine: Mapping[str, Any]) -> str:
    """What rows call a machine that a worker's catalog describes."""
    kind = {name: value for name, value in machine.items() if name not in PASSING}
    variables = {name: value for name, value in machine["variables"].items() if name not in SELECTING}
    return digest(kind | {"variables": variables})


def fresh(plan: Plan, catalog: Mapping[str, Any], scope: str) -> dict[str, Any]:
    """The sidecar of a new file. `scope`: see Executor."""
    sweep, machine = plan.sweep, catalog["environment"]
    return {
        "env_id": env_id(machine),
        **machine,
        "scope": scope,
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


def continued(before: Mapping[str, Any], present: Mapping[str, Any], sessions: int) -> dict[str, Any]:
    """The sidecar of a file that is continued: as it was, with the sessions there will be and a note of who goes on."""
    entry = {"date": present["started_at"]} | {name: present[name] for name in ("command", "git", "env_id")}
    if present["config"]["sha"] != before["config"]["sha"]:
        entry["config"] = present["config"]
    kept = {name: value for name, value in before.items() if name not in ENDING}
    return kept | {
        "measure": before["measure"] | {"sessions": sessions},
        "continued": [*before.get("continued", []), entry],
    }


def knows(sidecar: Mapping[str, Any], machine: str) -> bool:
    """Whether the sidecar describes the machine of this `env_id`."""
    return machine == sidecar["env_id"] or machine in sidecar.get("environments", {})


def extended(sidecar: Mapping[str, Any], machine: Mapping[str, Any]) -> dict[str, Any]:
    """The sidecar with one more machine."""
    return dict(sidecar) | {"environments": {**sidecar.get("environments", {}), env_id(machine): dict(machine)}}


def _git(folder: Path) -> dict[str, Any] | None:
    """Commit and dirtiness of the repository the config lies in, None outside one."""

    def ask(*arguments: str) -> str:
        command: Sequence[str] = ("git", "-C", str(folder), *arguments)
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()

    try:
        return {"commit": ask("rev-parse", "HEAD"), "dirty": bool(ask("status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.SubprocessError):
        return None
