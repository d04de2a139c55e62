"""`source_hash` changes with the code that was measured: a provider's `sources` hold every file of kbench's that it runs."""

from __future__ import annotations

import ast
import inspect
from collections import defaultdict
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from kbench import registry
from kbench.contract.origin import shipped

SHARED = ("kbench.kernels.", "kbench.operators.")
NOT_RUN = {"cuda_driver.py", "libraries.py"}
"""Calls of the driver, and reasons to decline a case: neither computes anything."""


def imported(file: Path) -> Iterator[Path]:
    """Files under SHARED that a Python file imports, anywhere in it; not the operator's definition."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and f"{node.module}.".startswith(SHARED):
            for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                try:
                    spec = find_spec(name)
                except ModuleNotFoundError:  # a name that the module defines
                    continue
                if spec and spec.origin and Path(spec.origin).name not in ("__init__.py", "operator.py"):
                    yield Path(spec.origin)


def needed(file: Path) -> set[Path]:
    """What a file imports, and what those files import in turn."""
    found: set[Path] = set()
    left = [file]
    while left:
        new = set(imported(left.pop())) - found
        found |= new
        left += new
    return {each for each in found if each.name not in NOT_RUN}


@pytest.mark.parametrize("operator", shipped())
def test_providers_declare_the_files_that_they_run(operator: str) -> None:
    declared: dict[Path, set[Path]] = defaultdict(set)
    for provider in registry.operator(operator).providers.values():
        file = Path(inspect.unwrap(provider.function).__code__.co_filename)
        declared[file] |= {file, *provider.sources}
    for file, sources in declared.items():
        assert needed(file) <= sources, file.name
