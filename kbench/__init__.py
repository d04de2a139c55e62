"""kbench: which implementation of this operator is fastest here, by how much, and can I believe it?

The Python API; everything else is an implementation detail.

    Operator, operator(name)   declare an operator, or fetch one to add a provider to it
    Case                       what an operator's functions are given: axis values, choices and dtype
    Unsupported                raise it in a provider to decline an input
    run, compare, plot, report what the commands of the same names do, also with mappings, functions and frames
    load                       the rows of a results file as a frame
    ConfigError, ResultsError, TableError, ExecutionError, Busy, WorkerLost   what these raise
"""

from __future__ import annotations

import sys

if sys.argv[:1] == ["-m"] and not getattr(sys.flags, "safe_path", False):
    # `python -m kbench` is about to start, with the working folder first in the path. A queue.py or a torch.py may lie
    # there; kbench itself is found by now.
    del sys.path[0]

import importlib
from typing import TYPE_CHECKING, Any

from kbench.registry import ACCELERATORS, Operator, Unsupported, operator
from kbench.results.row import Case, ResultsError
from kbench.version import __version__

if TYPE_CHECKING:
    from kbench.api import compare, load, plot, report, run
    from kbench.config.yaml_source import ConfigError
    from kbench.execute.executors.interface import ExecutionError
    from kbench.execute.lock import Busy
    from kbench.execute.worker.worker_process import WorkerLost
    from kbench.results.csv_reader import TableError

__all__ = [
    "ACCELERATORS",
    "Busy",
    "Case",
    "ConfigError",
    "ExecutionError",
    "Operator",
    "ResultsError",
    "TableError",
    "Unsupported",
    "WorkerLost",
    "__version__",
    "compare",
    "load",
    "operator",
    "plot",
    "report",
    "run",
]

_LATER = {
    **dict.fromkeys(("run", "load", "compare", "plot"), "kbench.api"),
    "Busy": "kbench.execute.lock",
    "ConfigError": "kbench.config.yaml_source",
    "ExecutionError": "kbench.execute.executors.interface",
    "TableError": "kbench.results.csv_reader",
    "WorkerLost": "kbench.execute.worker.worker_process",
}
"""What arrives on first use: a plug-in's `import kbench` stays cheap. `report` is the package, which can be called."""


def __getattr__(name: str) -> Any:
    if name == "report":
        return importlib.import_module("kbench.report")
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module 'kbench' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
