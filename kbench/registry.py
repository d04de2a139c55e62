"""The operators that exist in this process, by name.

Files in `kbench/operators/`, plug-in files and installed packages declare operators and providers (see kbench/contract/). This
module imports neither torch nor triton, so that `import kbench` stays cheap.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kbench.contract.operator import Operator

_operators: dict[str, Operator] = {}

_plugin: str | None = None
"""The plug-in that is being imported. Providers that register now belong to it."""


def current_plugin() -> str | None:
    """The plug-in that new providers belong to; None for kbench itself."""
    return _plugin


@contextmanager
def registering_for(plugin: str | None) -> Iterator[None]:
    """Inside, new providers belong to `plugin`; None is kbench itself. It is global, as threads of a plug-in register too."""
    global _plugin
    before, _plugin = _plugin, plugin
    try:
        yield
    finally:
        _plugin = before


def add(operator: Operator) -> None:
    """Register an operator. Raises ValueError if its name is taken."""
    name = operator.name
    if name in shipped():
        _import_shipped(name)  # so that a plug-in cannot take the name
    if name in _operators:
        raise ValueError(f"operator {name!r} exists already; add providers to it with kbench.operator({name!r})")
    _operators[name] = operator


def operator(name: str) -> Operator:
    """The operator of this name. Imports it if it is one of kbench's. Raises LookupError for an unknown name."""
    if name not in _operators and name in shipped():
        _import_shipped(name)
    if name not in _operators:
        raise LookupError(f"unknown operator {name!r}; the operators are {', '.join(operator_names())}")
    return _operators[name]


def _import_shipped(name: str) -> None:
    """Import an operator of kbench. Does nothing while that import is running."""
    with registering_for(None):  # a plug-in that asks for the operator does not own it
        importlib.import_module(f"kbench.operators.{name}")


def shipped() -> list[str]:
    """Names of the operators that come with kbench: the packages and modules in `kbench/operators/`."""
    folder = Path(__file__).with_name("operators")
    return sorted(module.name for module in pkgutil.iter_modules([str(folder)]))


def operator_names() -> list[str]:
    """Names of all operators: kbench's own and those that plug-ins have registered."""
    return sorted({*shipped(), *_operators})
