"""Chooses the executor of a run, makes the plan from its catalog, and tries the operator.

The operator is tried before anything is measured, so that its faults are reported once, and not as faults of providers.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from kbench.config.load import Config
from kbench.config.plan import Plan, find_smallest
from kbench.contract.provider import missing
from kbench.errors import ExecutionError, UsageError
from kbench.execute.devices import Devices
from kbench.execute.executor import Executor
from kbench.execute.supervisor import WorkerSupervisor
from kbench.protocol import CatalogRequest, Task
from kbench.text import terminal

TRIALS_S = 3.0
"""After this many seconds no other case is tried: the reference of some operators takes long on any case."""

_ADDRESS = re.compile(r"(tcp|tls|ws|wss)://(\[\S+\]|[^\s:]+):[0-9]{1,5}")
"""With other addresses dask's client prints tracebacks."""


def prepare(config: Config, executor: Executor) -> Plan:
    """Make the plan of a config, and try the operator.

    Raises ConfigError, WorkerLost and ExecutionError."""
    plan = config.resolve(executor.start())
    note_choices(config, plan)
    for plugin in config.cli_plugins:
        if all(info.plugin != plugin for info in plan.info.providers.values()):
            terminal.note(f"warning: {config.places.get(plugin, plugin)}: registers no provider of {plan.operator}")
    if plan.tasks and plan.runnable:
        try_operator(executor.try_operator, plan)
    return plan


def start_executor(
    config: Config, *, devices: str | None = None, scheduler: str | None = None, spread: bool = False
) -> Executor:
    """The executor that the options of `kbench run` ask for. Raises UsageError, WorkerLost and ExecutionError."""
    if devices is not None and scheduler is not None:
        raise UsageError("--devices and --scheduler cannot be combined; choose one")
    if scheduler is not None:
        if not _ADDRESS.fullmatch(scheduler):
            example = "tcp://HOST:PORT or tls://HOST:PORT, for example tcp://10.0.0.1:8786"
            raise UsageError(f"--scheduler {scheduler}: expected {example}")
        if config.source:
            raise UsageError("--scheduler measures config files only; measure a folder on this host")
        try:
            from kbench.execute.cluster import Cluster
        except ImportError:
            raise ExecutionError(f"--scheduler: {missing('distributed')}") from None
        return Cluster(scheduler, config.plugins, spread=spread)
    if devices is not None:
        return Devices(CatalogRequest(config.plugins, config.source), devices, spread=spread)
    if spread:
        raise UsageError("--spread has no effect without --devices or --scheduler")
    return start_worker(config)


def start_worker(config: Config) -> WorkerSupervisor:
    """The executor for the current device, whose worker has not started yet."""
    return WorkerSupervisor(CatalogRequest(config.plugins, config.source))


def note_choices(config: Config, plan: Plan) -> None:
    """Say that a profile applies which the user did not choose, and which plug-ins of installed packages failed: the run may
    not need them."""
    if plan.profile is not None and config.profile is None:
        applies = f"profile {plan.profile} of {plan.path.name} applies; choose another with --profile"
        terminal.note(f"{plan.catalog.device.name} is no accelerator: {applies}")
    for failure in plan.catalog.plugin_errors:
        terminal.note(f"warning: {failure}")


def try_operator(try_task: Callable[[Task], None], plan: Plan) -> None:
    """Call `try_task` for the smallest case of every kind: the operator may have a fault in one of them. Raises ConfigError."""
    start, by_case = time.monotonic(), {task.case: task for task in plan.tasks}
    for case in find_smallest(plan):
        try_task(by_case[case])
        if time.monotonic() - start > TRIALS_S:
            return
