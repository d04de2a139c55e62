"""Replaces do_bench in `triton.testing` as soon as a program imports that module. Imports nothing heavy itself."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

from kbench.sources.scripts.bench_call import Timed, stand_in

REPLACED = "triton.testing"


class _Finder(MetaPathFinder):
    """Finds `triton.testing` where Python would, and gives it a loader that replaces its functions."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != REPLACED:
            return None
        found = PathFinder.find_spec(fullname, path, target)
        if found is not None and found.origin:
            found.loader = _Loader(fullname, found.origin)
        return found


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        for name in ("do_bench", "do_bench_cudagraph"):
            setattr(module, name, stand_in(getattr(module, name), name, _measured_in_place))


def _measured_in_place() -> Timed:
    """Imports torch, so it waits for the first call."""
    from kbench.measure.scripts.in_place import in_place

    return in_place()


def replace_do_bench_on_import() -> None:
    sys.meta_path.insert(0, _Finder())
