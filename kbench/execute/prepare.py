"""Chooses the executor of a run, makes the plan from its catalog, and tries the operator.

The operator is tried before anything is measured, so that its faults are reported once, and not as faults of providers.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kbench.config.load import Config
from kbench.config.plan import Plan, find_smallest
from kbench.contract.provider import missing
from kbench.errors import ExecutionError, Note, UsageError
from kbench.execute.devices import Devices
from kbench.execute.executor import Executor
from kbench.execute.existing_results import ResumeMode
from kbench.execute.supervisor import WorkerSupervisor
from kbench.protocol import Catalog, CatalogRequest, Task

TRIALS_S = 3.0
"""After this many seconds no other case is tried: the reference of some operators takes long on any case."""

_ADDRESS = re.compile(r"(tcp|tls|ws|wss)://(\[\S+\]|[^\s:]+):[0-9]{1,5}")
"""With other addresses dask's client prints tracebacks."""


@dataclass(frozen=True)
class RunOptions:
    """What the caller of a run chooses beside its config: the options of `kbench run`, which says what they are.

    continuing  how to continue an existing results file; None starts a new file
    lock_clocks `base`, or a number of MHz
    name        of the CSV and the environment file; "" for that of the config

    Raises UsageError for options that cannot be combined.
    """

    out: Path = Path("results")
    devices: str | None = None
    scheduler: str | None = None
    spread: bool = False
    continuing: ResumeMode | None = None
    wait: bool = True
    lock_clocks: str | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if self.devices is not None and self.scheduler is not None:
            raise UsageError("--devices and --scheduler cannot be combined; choose one")
        if self.lock_clocks is not None and self.scheduler is not None:
            raise UsageError("--lock-clocks locks devices of this host; it cannot be combined with --scheduler")


@contextmanager
def prepare(
    config: Config,
    options: RunOptions,
    note: Note,
    executor: Executor | None = None,
    *,
    tried: bool = False,
) -> Iterator[tuple[Executor, Plan]]:
    """Start the executor that the options ask for, unless one is given, and make the plan; try the operator unless that is
    done (`tried`). The executor is stopped at the end.

    Raises UsageError, ConfigError, WorkerLost and ExecutionError."""
    executor = executor or _start_executor(config, options, note)
    try:
        plan = make_plan(config, executor.catalog, (lambda line: None) if tried else note)
        if not tried:
            for plugin in config.cli_plugins:
                if all(info.plugin != plugin for info in plan.info.providers.values()):
                    note(f"warning: {config.places.get(plugin, plugin)}: registers no provider of {plan.operator}")
            if plan.tasks and plan.runnable:
                try_operator(executor.try_operator, plan)
        yield executor, plan
    finally:
        executor.stop()


def _start_executor(config: Config, options: RunOptions, note: Note) -> Executor:
    if options.scheduler is not None:
        if not _ADDRESS.fullmatch(options.scheduler):
            example = "tcp://HOST:PORT or tls://HOST:PORT, for example tcp://10.0.0.1:8786"
            raise UsageError(f"--scheduler {options.scheduler}: expected {example}")
        if config.source:
            raise UsageError("--scheduler measures config files only; measure a folder on this host")
        try:
            from kbench.execute.cluster import Cluster
        except ImportError:
            raise ExecutionError(f"--scheduler: {missing('distributed')}") from None
        return Cluster(options.scheduler, config.plugins, note, spread=options.spread)
    request = CatalogRequest(config.plugins, config.source)
    if options.devices is not None:
        return Devices(request, note, options.devices, spread=options.spread)
    return WorkerSupervisor(request, note)


def make_plan(config: Config, catalog: Catalog, note: Note) -> Plan:
    """The plan of a config. Notes say that a profile applies which the user did not choose, and which plug-ins of installed
    packages failed: the run may not need them. Raises ConfigError."""
    plan = config.resolve(catalog)
    if plan.profile is not None and config.profile is None:
        applies = f"profile {plan.profile} of {plan.path.name} applies; choose another with --profile"
        note(f"{catalog.device.name} is no accelerator: {applies}")
    for failure in catalog.plugin_errors:
        note(f"warning: {failure}")
    return plan


def try_operator(try_task: Callable[[Task], None], plan: Plan) -> None:
    """Call `try_task` for the smallest case of every kind: the operator may have a fault in one of them. Raises ConfigError."""
    start, by_case = time.monotonic(), {task.case: task for task in plan.tasks}
    for case in find_smallest(plan):
        try_task(by_case[case])
        if time.monotonic() - start > TRIALS_S:
            return
