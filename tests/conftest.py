"""Fixtures of all tests, and the mark of tests that need an accelerator."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

import pytest
import torch
from common import Kbench, run_kbench
from making import write_rows
from promises.outside import prepare_process

from kbench.contract.operator import registered
from kbench.contract.origin import shipped
from kbench.contract.registry import operator
from kbench.measure.machine.interpreter import prepare_interpreter
from kbench.results.row import Row

gc.disable()  # collecting the tests makes no garbage: to look for some among a thousand modules took a fifth of it
prepare_process()
if not torch.accelerator.is_available() and find_spec("triton"):
    prepare_interpreter()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: "promises" not in item.path.parts)  # see the Makefile
    gc.freeze()  # nor is it when tests run
    gc.enable()
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
