"""Fixtures of all tests, and the mark of tests that need an accelerator."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

import pytest
import torch
from common import ROOT, Kbench, run_kbench
from making import write_rows

from kbench.contract.operator import registered
from kbench.contract.origin import shipped
from kbench.contract.registry import operator
from kbench.measure.machine.interpreter import prepare_interpreter
from kbench.results.row import Row

os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))

# A test must give the same result on a laptop and in CI: kbench prints more where these are set. Tests of that set them again.
for _variable in ("CI", "GITHUB_ACTIONS", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"):
    os.environ.pop(_variable, None)

# Compiling a header first pays off from the seventh kernel that one process compiles; no test compiles as many.
os.environ["TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS"] = "0"

# Under nohup and in the background of a shell, some signals are ignored. kbench respects that, and tests that send them would
# wait for nothing.
for _number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number is signal.SIGINT else signal.SIG_DFL)

if not torch.accelerator.is_available() and find_spec("triton"):
    prepare_interpreter()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.accelerator.is_available():
        return
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="needs an accelerator"))


@pytest.fixture(scope="session", autouse=True)
def own_device_locks(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Put device locks into the temporary folder of this test process: parallel tests must not wait for each other's locks.
    Remove COLUMNS, which pytest-xdist sets: output into pipes is then as wide as for a user."""
    os.environ.pop("COLUMNS", None)
    os.environ["TMPDIR"] = str(tmp_path_factory.getbasetemp())
    tempfile.tempdir = None  # it may have been found before


@pytest.fixture
def no_operators() -> Iterator[None]:
    """No operator is registered when the test begins, and those that it registers are forgotten when it ends."""
    with mock.patch.dict(registered, clear=True):
        yield


@pytest.fixture
def own_operators() -> Iterator[None]:
    """The operators of kbench are registered. Those that the test adds are forgotten when it ends."""
    for name in shipped():
        operator(name)
    with mock.patch.dict(registered):
        yield


@pytest.fixture
def kbench(tmp_path: Path) -> Kbench:
    """Run `kbench ARGUMENTS` in an empty folder, without a terminal, in the process of the test. Workers are real processes."""
    return lambda *arguments: run_kbench(arguments, tmp_path)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write rows into a results file of the given name and return its path."""

    def write(name: str, rows: Iterable[Row], axes: tuple[str, ...] = ("M", "N")) -> Path:
        return write_rows(tmp_path / f"{name}.csv", rows, axes)

    return write


@pytest.fixture
def write_config(tmp_path: Path) -> Callable[[str], Path]:
    """Write a config file into the test's folder and return its path."""

    def write(text: str, name: str = "sweep.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write
