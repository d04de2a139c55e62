"""Functions and constants that tests share. Fixtures are in conftest.py, which tests cannot import by name."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import pytest
from filelock import FileLock
from promises import outside

ROOT = outside.ROOT

Kbench = Callable[..., "subprocess.CompletedProcess[str]"]


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[], str]) -> str:
    """The text that `make` returns. Parallel test processes share it in a file: the first one calls `make`, the others read."""
    folder = factory.getbasetemp()
    shared = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / name
    with FileLock(f"{shared}.lock"):
        if not shared.exists():
            shared.write_text(make())
    return shared.read_text()


def documented_file(page: str, name: str) -> str:
    """The text of a file that a page of docs/ shows as a whole: a block of code whose first line is a comment with its name."""
    blocks = re.findall(r"^```\w+\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.MULTILINE | re.DOTALL)
    [text] = [block for block in blocks if block.splitlines()[0] in (f"# {name}", f"// {name}")]
    return text


def tool(name: str) -> ModuleType:
    """The module tools/NAME.py."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


def run_kbench(arguments: Sequence[object], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the program `kbench` in this process, in a folder, without a terminal. Its workers are separate processes."""
    ended = outside.run_kbench(*arguments, folder=folder)
    return subprocess.CompletedProcess(["kbench", *map(str, arguments)], ended.code, ended.out, ended.err)
