"""The plan of a run: its cases and configurations, its tasks, what they require of a worker, and how long they will take."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil
from pathlib import Path

from kbench.protocol import Catalog, Configuration, Measure, OperatorInfo, Task
from kbench.results.case import FORWARD, Case
from kbench.text.words import plural

OVERHEAD = 1.1
"""Wall time of a round divided by `rep_ms`. The rest is estimating and reading clocks. Measured on the softmax sweep."""

CONTROLS, CONTROL_MS = 2, 15.0
"""The controls that take part in the rounds of a case, and the longest that a round takes samples of one, on average."""

MORE_ROUNDS = 1.5
"""How many rounds a case takes with a `precision` of 0.5 %, divided by the fewest that the config asks for. Estimated from the
rounds of the softmax sweep on an H200."""

CHECK_S = 0.1
"""Seconds to build and check one provider on one case, without compilation."""


@dataclass(frozen=True)
class Plan:
    """What a run will do on a machine: a config with every name looked up and every range written out.

    path           the config file, as the user named it
    text           its source
    catalog        the machine
    operator       name of the operator
    cases          in the order of the file, each once
    configurations in the order of the file
    baseline       name of the configuration that speedup is relative to; None when `--only` leaves it out
    measure        how to measure
    profile        name of the profile in effect
    models         by case, the names of the models that have this case, between semicolons
    weights        by case, how often the case occurs, if the config was run with `--shapes`
    source         the problem that the worker made the config of; "" for a config file
    """

    path: Path
    text: str
    catalog: Catalog
    operator: str
    cases: tuple[Case, ...]
    configurations: tuple[Configuration, ...]
    baseline: str | None
    measure: Measure
    profile: str | None
    models: Mapping[Case, str] = field(default_factory=dict)
    weights: Mapping[Case, float] = field(default_factory=dict)
    source: str = ""

    @property
    def info(self) -> OperatorInfo:
        return self.catalog.operators[self.operator]

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """All cases of a session, then those of the next: a session is the unit of replication and spans all cases."""
        providers = {configuration.provider for configuration in self.configurations}
        required = requirements(self.catalog, self.operator, providers)
        return tuple(
            Task(case, self.configurations, self.baseline, self.measure, session, required)
            for session in range(self.measure.sessions)
            for case in self.cases
        )

    @cached_property
    def unavailable(self) -> dict[str, str]:
        """The reasons why configurations cannot run on this machine, by name."""
        providers = self.info.providers
        infos = {configuration.name: providers[configuration.provider] for configuration in self.configurations}
        return {name: info.unavailable for name, info in infos.items() if info.unavailable}

    @cached_property
    def runnable(self) -> tuple[Configuration, ...]:
        return tuple(
            configuration for configuration in self.configurations if configuration.name not in self.unavailable
        )

    @cached_property
    def interpreted(self) -> list[str]:
        """The configurations that Triton's interpreter runs, so that they are checked and not timed."""
        providers = self.info.providers
        return [entry.name for entry in self.runnable if providers[entry.provider].interpreted]

    def progress(self, finished: int) -> str:
        """How many tasks are finished: `5 of 9 cases`, or `5 of 9 measurements (3 cases in 3 sessions)`."""
        cases, sessions = len(self.cases), self.measure.sessions
        if sessions == 1:
            return f"{finished} of {len(self.tasks)} cases"
        product = f"{plural(cases, 'case')} in {sessions} sessions"
        return f"{finished} of {len(self.tasks)} measurements ({product})"

    def with_sessions(self, sessions: int) -> Plan:
        """The same plan with another number of sessions."""
        return replace(self, measure=self.measure.model_copy(update={"sessions": sessions}))

    def too_large(self) -> list[Case]:
        """The cases that need more memory than the device has, if that is known."""
        info, limit = self.info, self.catalog.memory_bytes
        if limit is None or not info.inputs:  # a script declares no tensors
            return []
        return [case for case in self.cases if info.needed_bytes(case) > limit]

    def estimate_s(self, devices: int, *, spread: bool) -> float:
        """Expected seconds to measure all tasks on this number of devices, without compilation and Triton's interpreter. All
        sessions of a case share a device unless `spread`."""
        measure = self.measure
        if not self.runnable:
            return 0.0
        rounds = measure.rounds if measure.precision is None else measure.rounds * MORE_ROUNDS
        timed = sum(configuration.name not in self.interpreted for configuration in self.runnable)
        round_ms = timed * measure.rep_ms + CONTROLS * min(measure.rep_ms, CONTROL_MS)
        warmup_ms = (timed + CONTROLS) * measure.warmup_ms
        # timers run for a fixed time, so all tasks take about the same
        task_s = (rounds * round_ms * OVERHEAD + warmup_ms) * 1e-3 + CHECK_S * len(self.runnable)
        in_turn = ceil(len(self.tasks) / devices) if spread else ceil(len(self.cases) / devices) * measure.sessions
        return in_turn * task_s


def requirements(catalog: Catalog, operator: str, providers: Collection[str]) -> dict[str, str]:
    """What must be the same in all workers of a run: the type of the device, the providers' code, the operator's definition."""
    infos = catalog.providers(operator)
    required = {"the type of device": catalog.device.type}
    required |= {f"the code of provider {name}": infos[name].source_hash for name in sorted(providers) if name in infos}
    if operator in catalog.operators:
        required["the definition of the operator"] = catalog.operators[operator].source_hash
    return required


def describe_kind(case: Case, plan: Plan) -> str:
    """The dtype of a case with its scalars, its choices and its mode, if they are not the default: `float32`,
    `bfloat16 causal=True backward`."""
    scalars = [f"{name}={case.axes[name]}" for name, default in plan.info.scalars.items() if case.axes[name] != default]
    words = [str(case.axes[name]) for name, words in plan.info.choices.items() if case.axes[name] != words[0]]
    return " ".join([case.dtype, *scalars, *words])


def find_smallest(plan: Plan) -> list[Case]:
    """The smallest case of every dtype, scalar, choice and mode. Those with gradients come first: a trial in such a mode is one
    in mode `forward` too."""
    return sorted((cases[0] for cases in _by_kind(plan)), key=lambda case: case.mode == FORWARD)


def find_extremes(plan: Plan) -> list[Case]:
    """The smallest and the largest case of every dtype, scalar, choice and mode. Kernels often choose their algorithm by these
    and by size."""
    return [case for cases in _by_kind(plan) for case in (cases[0], *cases[1:][-1:])]


def spread_cases(plan: Plan, most: int) -> tuple[Case, ...]:
    """At most `most` cases, in the order of the plan: kinds take turns, and each turn takes a larger case than the last."""
    kinds = _by_kind(plan)
    turns = [kinds[number * max(1, len(kinds) // most) % len(kinds)] for number in range(most)]
    chosen = {cases[round((len(cases) - 1) * number / (most - 1))] for number, cases in enumerate(turns)}
    return tuple(case for case in plan.cases if case in chosen)


def _by_kind(plan: Plan) -> list[list[Case]]:
    """The cases of every dtype, scalar, choice and mode, the smallest first."""
    kinds: dict[str, list[Case]] = {}
    for case in sorted(plan.cases, key=plan.info.tensor_bytes):
        kinds.setdefault(describe_kind(case, plan), []).append(case)
    return list(kinds.values())
