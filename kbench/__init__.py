"""kbench: which implementation of this operator is fastest here, by how much, and can I believe it?

The Python API; everything else is an implementation detail.

    Operator, operator(name)   declare an operator, or fetch one to add a provider to it
    Tensor                     declare an input or an output: its axes, dtype and values
    normal, uniform, integers  how the values of an input are drawn
    Case                       what an operator's functions are given: axes, scalars, choices, mode and dtype
    Provider, ACCELERATORS     what an operator's `providers` hold, and the device types for their `devices=`
    CudaSource                 a .cu file whose kernels your providers launch
    Unsupported                raise it in a provider to decline an input
    run, compare, plot, report what the commands of the same names do, also with mappings, functions and frames
    do_bench                   times a function, with the signature of triton.testing.do_bench
    load_script                makes operators of the plots of a script, in a plug-in
    load                       the rows of a results file as a frame
    Status                     how a row ended: the words in the column `status`
    KbenchError                the base of the errors below; its `exit_status` is an ExitStatus, the command's exit code
    UsageError, ConfigError, ResultsError, ExecutionError, Busy, WorkerLost   what the functions above raise
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from kbench.version import __version__

if TYPE_CHECKING:
    from kbench.api import compare, load, plot, report, run
    from kbench.contract.operator import Operator
    from kbench.contract.provider import ACCELERATORS, Provider, Unsupported
    from kbench.contract.registry import operator
    from kbench.contract.tensor import Tensor, integers, normal, uniform
    from kbench.errors import (
        Busy,
        ConfigError,
        ExecutionError,
        ExitStatus,
        KbenchError,
        ResultsError,
        UsageError,
        WorkerLost,
    )
    from kbench.kernels.cuda_source import CudaSource
    from kbench.measure.scripts.in_place import do_bench
    from kbench.measure.scripts.in_plugins import load_script
    from kbench.results.case import Case
    from kbench.results.vocabulary import Status

__all__ = [
    "ACCELERATORS",
    "Busy",
    "Case",
    "ConfigError",
    "CudaSource",
    "ExecutionError",
    "ExitStatus",
    "KbenchError",
    "Operator",
    "Provider",
    "ResultsError",
    "Status",
    "Tensor",
    "Unsupported",
    "UsageError",
    "WorkerLost",
    "__version__",
    "compare",
    "do_bench",
    "integers",
    "load",
    "load_script",
    "normal",
    "operator",
    "plot",
    "report",
    "run",
    "uniform",
]

_MODULES = {
    "kbench.api": ("compare", "load", "plot", "report", "run"),
    "kbench.errors": (
        "Busy",
        "ConfigError",
        "ExecutionError",
        "ExitStatus",
        "KbenchError",
        "ResultsError",
        "UsageError",
        "WorkerLost",
    ),
    "kbench.contract.operator": ("Operator",),
    "kbench.contract.provider": ("ACCELERATORS", "Provider", "Unsupported"),
    "kbench.contract.tensor": ("Tensor", "integers", "normal", "uniform"),
    "kbench.kernels.cuda_source": ("CudaSource",),
    "kbench.measure.scripts.in_place": ("do_bench",),
    "kbench.measure.scripts.in_plugins": ("load_script",),
    "kbench.contract.registry": ("operator",),
    "kbench.results.case": ("Case",),
    "kbench.results.vocabulary": ("Status",),
}
"""The module that defines each public name."""


def __getattr__(name: str) -> Any:
    """Import the module of a public name when the name is first used. `import kbench` and `kbench --help` stay cheap."""
    for module, names in _MODULES.items():
        if name in names:
            found = globals()[name] = getattr(importlib.import_module(module), name)
            return found
    raise AttributeError(f"module 'kbench' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
