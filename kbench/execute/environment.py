"""The environment sidecar of a run: the machine as the worker found it, then what was asked for, when, from which code.

Rows name the environment they were measured in by its `env_id`: a hash of what the machine is, its device's kind, its
driver and its packages, so that equal machines share one. The sidecar begins with the machine that the plan was made on;
`environments` holds every other that has made rows, by its `env_id`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kbench.execute.git_revision import revision
from kbench.execute.lock import command
from kbench.execute.plan import Plan
from kbench.results.row import digest, now
from kbench.text import redact
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
        "command": redact.command(command()),
        "started_at": now(),
        "git": revision(sweep.path.parent),
        "config": {
            "path": redact.text(str(sweep.path)),
            "sha": digest(sweep.text),
            "text": redact.text(sweep.text),
        },
        "profile": sweep.profile,
        "baseline": sweep.baseline,
        "measure": sweep.measure.model_dump(),
        "places": _places(plan, catalog),
        "plugin_errors": [{k: redact.text(str(v)) for k, v in e.items()} for e in catalog["plugin_errors"]],
    }


def _places(plan: Plan, catalog: Mapping[str, Any]) -> dict[str, str]:
    """Where each provider is defined, `kernels/mine.py:12`, relative to the working directory; those that lie elsewhere are
    left out."""
    known = catalog["operators"][plan.sweep.operator]["providers"]
    providers = dict.fromkeys(curve.provider for curve in plan.sweep.curves)
    found = {name: str(known.get(name, {}).get("place") or "") for name in providers}
    return {name: redact.text(place) for name, place in found.items() if place}


def continued(before: Mapping[str, Any], present: Mapping[str, Any], sessions: int) -> dict[str, Any]:
    """The sidecar of a file that is continued: as it was, with the sessions there will be and a note of who goes on."""
    entry = {"date": present["started_at"]} | {name: present[name] for name in ("command", "git", "env_id")}
    if present["config"]["sha"] != before["config"]["sha"]:
        entry["config"] = present["config"]
    kept = {name: value for name, value in before.items() if name not in ENDING}
    return kept | {
        "measure": before["measure"] | {"sessions": sessions},
        "places": present["places"],
        "continued": [*(before.get("continued") or []), entry],
    }


def knows(sidecar: Mapping[str, Any], machine: str) -> bool:
    """Whether the sidecar describes the machine of this `env_id`."""
    return machine == sidecar["env_id"] or machine in (sidecar.get("environments") or {})


def extended(sidecar: Mapping[str, Any], machine: Mapping[str, Any]) -> dict[str, Any]:
    """The sidecar with one more machine."""
    return dict(sidecar) | {"environments": {**(sidecar.get("environments") or {}), env_id(machine): dict(machine)}}
