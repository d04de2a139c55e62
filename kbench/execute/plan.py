"""The plan: which cases will be measured with which providers, what they need, and how long it will take."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, prod
from typing import Any

from kbench.config.load import Curve, Sweep
from kbench.errors import ConfigError, ConfigIssue, SourceLocation
from kbench.results.row import Case

CONTROLS = 3
"""Rows kbench adds to every case that is timed: copy, empty, repeat."""

MAX_TASKS = 1_000_000
"""Cases times sessions of a run. So many take weeks."""

OVERHEAD = 1.1
"""Wall time of a round over `warmup_ms + rep_ms`: estimating, reading the clocks. Measured over the softmax sweep."""

CHECK_S = 0.1
"""Building and checking one provider on one case, when nothing has to be compiled."""


@dataclass(frozen=True)
class Task:
    """One case with all its curves, to be measured together in one session.

    `needs` is what the worker that measures it must have in common with the one the plan was made from: see `traits`.
    """

    case: Case
    curves: tuple[Curve, ...]
    baseline: str | None
    settings: Mapping[str, Any]
    session: int
    needs: Mapping[str, str] = field(default_factory=dict)

    def request(self, kind: str, curves: Sequence[Curve]) -> dict[str, Any]:
        """The message that asks a worker for (a part of) this task."""
        names = [curve.name for curve in curves]
        return {
            "request": kind,
            "case": self.case.to_json(),
            "curves": [{"provider": c.provider, "params": dict(c.params)} for c in curves],
            "baseline": names.index(self.baseline) if self.baseline in names else None,
            "settings": dict(self.settings),
            "session": self.session,
        }


@dataclass(frozen=True)
class Plan:
    """What a run will do. `unavailable` maps curve names to the reason they cannot run on this machine."""

    sweep: Sweep
    tasks: tuple[Task, ...]
    unavailable: Mapping[str, str]
    device: str
    device_type: str

    @property
    def runnable(self) -> tuple[Curve, ...]:
        return tuple(c for c in self.sweep.curves if c.name not in self.unavailable and not c.error)

    @property
    def task_s(self) -> float:
        """Expected seconds of measuring one task, compilation not included. Timers run for a time, not for a number of
        calls, so that all tasks take about the same."""
        measure = self.sweep.measure
        timed = len(self.runnable) + CONTROLS if self.runnable else 0
        rounds_s = timed * measure.rounds * (measure.warmup_ms + measure.rep_ms) * 1e-3 * OVERHEAD
        return rounds_s + CHECK_S * len(self.runnable)

    def estimate_s(self, devices: int = 1, *, spread: bool = False) -> float:
        """Expected seconds of measuring on so many devices, each case with all its sessions on one of them unless `spread`."""
        sessions = self.sweep.measure.sessions
        in_turn = ceil(len(self.tasks) / devices) if spread else ceil(len(self.sweep.cases) / devices) * sessions
        return in_turn * self.task_s


def plan(sweep: Sweep, catalog: Mapping[str, Any]) -> Plan:
    """Lay a sweep out as tasks, sessions outermost: a session is the unit of replication, so it spans the whole sweep."""
    measure = sweep.measure
    if len(sweep.cases) * measure.sessions > MAX_TASKS:
        what = f"{len(sweep.cases):,} cases in {measure.sessions:,} sessions; the limit is {MAX_TASKS:,} together"
        raise ConfigError([ConfigIssue(SourceLocation(str(sweep.path)), what)])
    settings = {
        name: getattr(measure, name)
        for name in (
            "timer",
            "cache",
            "stages",
            "warmup_ms",
            "rep_ms",
            "rounds",
            "seed",
            "timeout_s",
            "build_timeout_s",
            "threads",
        )
    }
    providers = catalog["operators"][sweep.operator]["providers"]
    reasons = {c.name: providers[c.provider]["unavailable"] for c in sweep.curves if not c.error}
    needs = traits(catalog, sweep.operator, {c.provider for c in sweep.curves if not c.error})
    return Plan(
        sweep=sweep,
        tasks=tuple(
            Task(case, sweep.curves, sweep.baseline, settings, session, needs)
            for session in range(measure.sessions)
            for case in sweep.cases
        ),
        unavailable={name: reason for name, reason in reasons.items() if reason},
        device=catalog["device"]["name"],
        device_type=catalog["device"]["type"],
    )


def traits(catalog: Mapping[str, Any], operator: str, providers: Collection[str]) -> dict[str, str]:
    """What must not differ between the workers of one run: the kind of device and the providers' code."""
    known = catalog["operators"].get(operator, {"providers": {}})["providers"]
    code = {
        f"the code of {name}": str(known[name].get("source_hash", "")) for name in sorted(providers) if name in known
    }
    return {"the type of device": str(catalog["device"]["type"])} | code


def smallest(tasks: Sequence[Task]) -> Task:
    """The first of the tasks with the smallest case, on which an operator is tried."""
    return min(tasks, key=lambda task: tensor_bytes(task.case))


def tensor_bytes(case: Case) -> int:
    """Size of one tensor that spans all the case's axes: a bound that --dry-run multiplies up for inputs and outputs."""
    return prod(v for v in case.axes.values() if isinstance(v, int)) * case.itemsize
