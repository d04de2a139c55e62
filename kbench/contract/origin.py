"""Where operators and providers come from: from kbench's own files in `kbench/operators/`, or from a plug-in."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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


def shipped() -> list[str]:
    """Names of the operators that come with kbench: the packages and modules in `kbench/operators/`."""
    folder = Path(__file__).parents[1] / "operators"
    return sorted(module.name for module in pkgutil.iter_modules([str(folder)]))


def import_shipped(name: str) -> None:
    """Import an operator of kbench, which registers it. Does nothing while that import is running."""
    with registering_for(None):  # a plug-in that asks for the operator does not own it
        importlib.import_module(f"kbench.operators.{name}")
