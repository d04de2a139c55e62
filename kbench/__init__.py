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
    load                       the rows of a results file as a frame
    Status                     how a row ended: the words in the column `status`
    KbenchError                the base of the errors below; its `exit_status` is an ExitStatus, the command's exit code
    UsageError, ConfigError, ResultsError, ExecutionError, Busy, WorkerLost   what the functions above raise
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from kbench.version import __version__

if TYPE_CHECKING:  # `as` marks a name as public
    from kbench.api import compare as compare
    from kbench.api import load as load
    from kbench.api import plot as plot
    from kbench.api import report as report
    from kbench.api import run as run
    from kbench.contract.operator import Operator as Operator
    from kbench.contract.provider import ACCELERATORS as ACCELERATORS
    from kbench.contract.provider import Provider as Provider
    from kbench.contract.provider import Unsupported as Unsupported
    from kbench.contract.registry import operator as operator
    from kbench.contract.tensor import Tensor as Tensor
    from kbench.contract.tensor import integers as integers
    from kbench.contract.tensor import normal as normal
    from kbench.contract.tensor import uniform as uniform
    from kbench.errors import Busy as Busy
    from kbench.errors import ConfigError as ConfigError
    from kbench.errors import ExecutionError as ExecutionError
    from kbench.errors import ExitStatus as ExitStatus
    from kbench.errors import KbenchError as KbenchError
    from kbench.errors import ResultsError as ResultsError
    from kbench.errors import UsageError as UsageError
    from kbench.errors import WorkerLost as WorkerLost
    from kbench.kernels.cuda_source import CudaSource as CudaSource
    from kbench.measure.scripts.in_place import do_bench as do_bench
    from kbench.results.case import Case as Case
    from kbench.results.vocabulary import Status as Status

_NAMES = {
    "kbench.api": ("compare", "load", "plot", "report", "run"),
    "kbench.contract.operator": ("Operator",),
    "kbench.contract.provider": ("ACCELERATORS", "Provider", "Unsupported"),
    "kbench.contract.registry": ("operator",),
    "kbench.contract.tensor": ("Tensor", "integers", "normal", "uniform"),
    "kbench.errors": (
        "Busy", "ConfigError", "ExecutionError", "ExitStatus", "KbenchError", "ResultsError", "UsageError", "WorkerLost",
    ),
    "kbench.kernels.cuda_source": ("CudaSource",),
    "kbench.measure.scripts.in_place": ("do_bench",),
    "kbench.results.case": ("Case",),
    "kbench.results.vocabulary": ("Status",),
}  # fmt: skip
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
"""The module that defines each public name."""

__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> Any:
    """Import the module of a public name when the name is first used. `import kbench` and `kbench --help` stay cheap."""
    if name not in _MODULES:
        raise AttributeError(f"module 'kbench' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
