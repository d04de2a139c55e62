"""Reads a report of Nsight Compute: a `.ncu-rep` file, or a CSV that was made from one."""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kbench import files
from kbench.counters.kernel_counters import KernelCounters, from_metrics
from kbench.counters.ncu import (
    INSTALL,
    READ_REPORT_LIMIT_S,
    CountingFailed,
    fault_of,
    find_ncu,
    import_options,
    run_limited,
)
from kbench.counters.ncu_csv import MOST_LAUNCHES_READ, UNITS, NotCounters, read_ncu_csv
from kbench.errors import UsageError

MAX_REPORT_BYTES = 64 << 20


def read_report(path: Path) -> list[KernelCounters]:
    """The counters of each launch in a report. A file that does not end in `.csv` is read by the program `ncu` or, without it,
    by NVIDIA's Python module `ncu_report`. Raises UsageError."""
    try:
        with files.opened(path) as file:
            if not file.read(1):
                raise NotCounters("it is empty")
        if path.suffix == ".csv":
            return read_ncu_csv(files.read_bytes(path, MAX_REPORT_BYTES).decode("utf-8", "replace"))
        if ncu := find_ncu():
            return _converted(ncu, path)
        if module := _module():
            return list(_loaded(module, path))
    except FileNotFoundError:
        raise UsageError(f"--import {path}: no such file") from None
    except OSError as error:
        raise UsageError(f"--import {path}: cannot be read ({error.strerror or error})") from None
    except (NotCounters, CountingFailed) as error:
        raise UsageError(f"--import {path}: is not an Nsight Compute report: {error}") from None
    command = shlex.join(["ncu", *import_options(path.name)])
    raise UsageError(
        f"--import {path}: this is no .csv file, so kbench needs NVIDIA's program ncu to read it, and ncu is not installed "
        f"here; {INSTALL}, or make a CSV on a machine that has ncu: {command} > report.csv"
    )


def _converted(ncu: str, path: Path) -> list[KernelCounters]:
    """Raises CountingFailed and NotCounters."""
    ended = run_limited([ncu, *import_options(str(path))], READ_REPORT_LIMIT_S)
    if ended.code:
        raise CountingFailed(fault_of(ended))
    return read_ncu_csv(ended.text)


def _module() -> Any:
    """NVIDIA's module, which is in the folder extras/python of Nsight Compute; None if Python does not find it."""
    try:
        return importlib.import_module("ncu_report")
    except ImportError:
        return None


def _loaded(module: Any, path: Path) -> Iterator[KernelCounters]:
    """Raises CountingFailed. See "Python Report Interface" in NVIDIA's documentation."""
    try:
        report = module.load_report(str(path))
        actions = [kernel for number in range(report.num_ranges()) for kernel in _actions(report.range_by_idx(number))]
    except Exception as error:  # noqa: BLE001  the module does not say what it raises
        raise CountingFailed(str(error)) from None
    for action in actions[:MOST_LAUNCHES_READ]:
        values = {}
        for name in action.metric_names():
            metric = action.metric_by_name(name)
            value = metric.value() if "__" in name else None
            if isinstance(value, (int, float)) and value >= 0:
                values[name] = value * UNITS.get(metric.unit(), 1.0)
        yield from_metrics(action.name(action.NameBase_MANGLED), values)


def _actions(found: Any) -> Iterator[Any]:
    return (found.action_by_idx(number) for number in range(found.num_actions()))
