"""What no provider may replace: the functions that the clock and the judge call, or other providers, as those of torch; what
operators consist of; and the standard streams of the worker."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from inspect import isroutine
from itertools import compress, repeat
from operator import is_not
from pkgutil import resolve_name
from types import FunctionType
from typing import Any, TextIO

from kbench.contract.operator import Operator

WATCHED = (
    *(f"builtins.{name}" for name in ("abs", "len", "max", "min", "round", "sorted", "sum")),
    "time",
    "statistics.median",
    "statistics.quantiles",
    "torch",
    "torch.nn.functional",
    "torch.Tensor",
    "torch.accelerator.synchronize",
    "torch.cuda.synchronize",
    "torch.cuda._sleep",
    "torch.cuda.Event",
    "torch.cuda.CUDAGraph",
    "torch.profiler.profile",
    "triton.testing.do_bench",
    "kbench.measure.correctness.check",
    "kbench.measure.correctness.elements",
    "kbench.measure.machine.device.Device",
)
"""Functions, and modules and classes of which all functions are meant. One that is not installed is left out."""

STREAMS = {0: "stdin", 1: "stdout", 2: "stderr"}


@dataclass(frozen=True)
class Watched:
    """An object, or a dictionary, and what it had by name. `label` says what a name is."""

    owner: Any
    values: dict[str, Any]
    label: str = "{}"

    def put_back(self) -> list[str]:
        """Put back what was replaced. Returns the labels. It runs for thousands of names: without a loop."""
        names, owner = self.values, self.owner
        present = map(owner.get, names) if isinstance(owner, dict) else map(getattr, repeat(owner), names, repeat(None))
        replaced = list(compress(names, map(is_not, present, names.values())))
        for name in replaced:
            if isinstance(owner, dict):
                owner[name] = names[name]
            else:
                setattr(owner, name, names[name])
        return [self.label.format(name) for name in replaced]


class WatchedFunctions:
    """The functions of WATCHED as they are now, and what operators consist of."""

    def __init__(self) -> None:
        self._watched: dict[str, Watched] = {}  # watched again, something has new values
        for path in WATCHED:
            with suppress(ImportError, AttributeError):
                self._watch(path, resolve_name(path))

    def _watch(self, path: str, watched: Any) -> None:
        if isroutine(watched):
            module, _, name = path.rpartition(".")
            self._watched[path] = Watched(resolve_name(module), {name: watched}, f"{module}.{{}}")
            if isinstance(watched, FunctionType):
                self._watched[f"{path}.__code__"] = Watched(watched, {"__code__": watched.__code__}, path)
            return
        names = dir(watched) if isinstance(watched, type) else tuple(vars(watched))
        # torch itself replaces its function `manual_seed` when it compiles for the first time
        values = {name: getattr(watched, name) for name in names if f"{path}.{name}" != "torch.manual_seed"}
        # a method of a metaclass is another object each time
        routines = {
            name: value for name, value in values.items() if isroutine(value) and getattr(watched, name) is value
        }
        owner = watched if isinstance(watched, type) else vars(watched)
        self._watched[path] = Watched(owner, routines, f"{path}.{{}}")

    def watch_operator(self, operator: Operator) -> None:
        """Watch the fields of an operator and its present providers. New ones may be added."""
        label = f"operator {operator.name}"
        self._watched[label] = Watched(operator, dict(vars(operator)), f"{label}.{{}}")
        self._watched[f"{label}, providers"] = Watched(
            operator.providers, dict(operator.providers), f"{label}, provider {{}}"
        )

    def put_back(self) -> list[str]:
        """Put everything back that was replaced since it was watched. Returns the labels."""
        return [label for watched in self._watched.values() for label in watched.put_back()]


class StandardStreams:
    """Remembers the files of descriptors 0, 1 and 2, and Python's `sys.stdout` and `sys.stderr`, as they are now. If a provider
    closes one, the next file that somebody opens gets its number."""

    def __init__(self) -> None:
        self._copies: dict[int, int] = {}
        for number in STREAMS:
            with suppress(OSError):  # it is closed already
                self._copies[number] = os.dup(number)
        self._objects: dict[str, TextIO] = {name: getattr(sys, name) for name in ("stdout", "stderr")}

    def __del__(self) -> None:
        for copy in self._copies.values():
            os.close(copy)

    def put_back(self) -> list[str]:
        """Open again what was closed, and undo what was redirected. Returns the names of these streams."""
        changed = []
        for number, copy in self._copies.items():
            if _file(number) != _file(copy):
                os.dup2(copy, number)
                changed.append(f"file descriptor {number} ({STREAMS[number]})")
        for name, file in self._objects.items():
            if getattr(file, "closed", False):
                self._objects[name] = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
            if getattr(sys, name, None) is not self._objects[name]:
                setattr(sys, name, self._objects[name])
                changed.append(f"sys.{name}")
        return changed


def _file(number: int) -> tuple[int, int] | None:
    """Which file a descriptor stands for; None if it is closed."""
    try:
        status = os.fstat(number)
    except OSError:
        return None
    return status.st_dev, status.st_ino
