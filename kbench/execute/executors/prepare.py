"""Chooses the executor of a run, and makes the plan from its catalog."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

from kbench.config.load import Config, plugin_failures
from kbench.config.resolve import Sweep
from kbench.contract.provider import missing
from kbench.errors import ExecutionError, UsageError
from kbench.execute.executor import Executor
from kbench.execute.executors.local import Local
from kbench.execute.executors.trials import try_operator
from kbench.execute.plan import make_plan
from kbench.execute.run import PreparedRun, RunOptions
from kbench.execute.worker.starting import PluginFiles
from kbench.protocol import Catalog, Source

_ADDRESS = re.compile(r"(tcp|tls|ws|wss)://(\[[0-9a-fA-F:.%]+\]|[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5})")


class Resolvable(Protocol):
    """What can be measured: a config file, or the config of a script or folder."""

    @property
    def plugins(self) -> tuple[str, ...]: ...

    @property
    def source(self) -> Source | None: ...

    def resolve(self, catalog: Catalog) -> Sweep: ...


def prepare(config: Resolvable, options: RunOptions, note: Callable[[str], None]) -> PreparedRun:
    """Start a worker and make the plan. The caller has to stop the executor that is returned: use `with`.

    Raises UsageError, ConfigError, WorkerLost and ExecutionError."""
    executor = executor_for(config, options, note)
    try:
        layout = make_plan(config.resolve(executor.catalog), executor.catalog, keep_trying=options.keep_trying)
        for failure in plugin_failures(executor.catalog):  # of installed packages: the run may not need them
            note(f"warning: {failure}")
        if layout.tasks and layout.runnable:
            try_operator(executor.try_operator, layout.tasks, layout.sweep)
        return PreparedRun(executor, layout)
    except BaseException:
        executor.stop()
        raise


def executor_for(config: Resolvable, options: RunOptions, note: Callable[[str], None]) -> Executor:
    """Make the executor that the options ask for, and start its first worker. Tests replace this function."""
    if options.scheduler is not None:
        _check_address(options.scheduler)
        if not isinstance(config, Config):
            raise UsageError("--scheduler measures config files only; measure a script or a folder on this host")
        try:
            from kbench.execute.executors.cluster import Cluster
        except ImportError:
            raise ExecutionError(f"--scheduler: {missing('distributed')}") from None
        return Cluster(options.scheduler, config.plugins, note, spread=options.spread)
    files = PluginFiles(config.plugins, source=config.source)
    if options.devices is not None:
        from kbench.execute.executors.devices import Devices

        return Devices(files, note, options.devices, spread=options.spread)
    return Local(files, note)


def _check_address(address: str) -> None:
    """Check that dask can use the address. With others its client prints tracebacks. Raises UsageError."""
    match = _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match["port"]) < 65536:
        raise UsageError(
            f"--scheduler {address}: expected tcp://HOST:PORT or tls://HOST:PORT, for example tcp://10.0.0.1:8786"
        )
