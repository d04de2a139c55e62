"""The functions that no provider may replace: the clock and the judge call them, or other providers, as those of torch."""

from __future__ import annotations

from contextlib import suppress
from inspect import isroutine
from pkgutil import resolve_name
from types import CodeType, FunctionType
from typing import Any

from kbench.contract.operator import Operator
from kbench.contract.provider import Provider

WATCHED = (
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

MADE_ANEW = "torch.manual_seed"
"""torch itself replaces this function when it compiles for the first time."""


class WatchedFunctions:
    """The functions of WATCHED as they are now, and what operators consist of."""

    def __init__(self) -> None:
        self._values: dict[str, tuple[Any, str, Any]] = {}
        self._codes: dict[str, tuple[FunctionType, CodeType]] = {}
        self._operators: dict[str, tuple[Operator, dict[str, Any], dict[str, Provider]]] = {}
        for path in WATCHED:
            with suppress(ImportError, AttributeError):
                self._watch(path, resolve_name(path))
        self._values.pop(MADE_ANEW)

    def _watch(self, path: str, watched: Any) -> None:
        if isroutine(watched):
            owner, _, name = path.rpartition(".")
            self._values[path] = resolve_name(owner), name, watched
            if isinstance(watched, FunctionType):
                self._codes[path] = watched, watched.__code__
            return
        for name in dir(watched) if isinstance(watched, type) else tuple(vars(watched)):
            value = getattr(watched, name)
            # a method of a metaclass is another object each time
            if isroutine(value) and getattr(watched, name) is value:
                self._values[f"{path}.{name}"] = watched, name, value

    def watch_operator(self, operator: Operator) -> None:
        """Watch the fields of an operator, such as its reference, and its present providers. New ones may be added."""
        self._operators[operator.name] = operator, dict(vars(operator)), dict(operator.providers)

    def put_back(self) -> list[str]:
        """Put everything back that was replaced since it was watched. Returns the names."""
        replaced = []
        for path, (owner, name, value) in self._values.items():
            if getattr(owner, name, None) is not value:
                setattr(owner, name, value)
                replaced.append(path)
        for path, (function, code) in self._codes.items():
            if function.__code__ is not code:
                function.__code__ = code
                replaced.append(path)
        for label, (operator, fields, providers) in self._operators.items():
            for name, value in fields.items():
                if vars(operator).get(name) is not value:
                    vars(operator)[name] = value
                    replaced.append(f"operator {label}.{name}")
            for name, provider in providers.items():
                if operator.providers.get(name) is not provider:
                    operator.providers[name] = provider
                    replaced.append(f"operator {label}, provider {name}")
        return replaced
