"""Fixtures of all tests, and the mark of tests that need an accelerator."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

import pytest
import torch
from common import Kbench, run_kbench
from forking import ForkServer
from making import write_rows
from promises.conftest import own_temporary_folder  # noqa: F401  of all tests

from kbench.contract.operator import registered
from kbench.contract.origin import shipped
from kbench.contract.registry import operator
from kbench.execute import spawning
from kbench.measure.machine.interpreter import prepare_interpreter
from kbench.results.row import Row
from kbench.text import terminal

gc.disable()  # collecting the tests makes no garbage: to look for some among a thousand modules took a fifth of it
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
def forked_workers() -> Iterator[None]:
    """Fork the workers of this process, on a host: a driver may not survive a fork."""
    if torch.accelerator.is_available() or sys.platform != "linux":
        yield
        return
    with closing(ForkServer()) as server, mock.patch.object(spawning, "_start", server.start):
        yield


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
def notes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines that kbench notes from here on. They are not printed."""
    lines: list[str] = []
    monkeypatch.setattr(terminal, "note", lines.append)
    return lines


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
