"""What a user sees of kbench, tested from outside: commands, exit codes, files, and the names of `import kbench`.

These tests hold for any program that keeps kbench's promises. They import nothing from inside kbench, replace nothing in it,
and know none of its modules. `make promises` runs them without the conftest.py of the other tests.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from promises.outside import Ended, prepare_process, run_kbench, run_process

prepare_process()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The working folder of a test's commands."""
    return tmp_path


@pytest.fixture
def kbench(folder: Path) -> Callable[..., Ended]:
    """Run `kbench ARGUMENTS` in the test's folder, in the process of the test."""
    return lambda *arguments: run_kbench(*arguments, folder=folder)


@pytest.fixture
def kbench_process(folder: Path) -> Callable[..., Ended]:
    """Run `kbench ARGUMENTS` in the test's folder, as a process of its own."""
    return lambda *arguments, **variables: run_process(*arguments, folder=folder, **variables)


@pytest.fixture
def write(folder: Path) -> Callable[[str, str], Path]:
    """Write a text file into the test's folder: `write("sweep.yaml", text)`."""

    def write(name: str, text: str) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], object]], Path]:
    """`made_once(name, make)` is a folder that `make(folder)` has filled: once, for all tests of all test processes.

    For runs of kbench whose results many tests read. No test writes there.
    """
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def made_once(name: str, make: Callable[[Path], object]) -> Path:
        folder, done = shared / f"made-{name}", shared / f"made-{name}.done"
        with FileLock(f"{folder}.lock", timeout=280):
            if not done.exists():
                assert not folder.exists(), f"{name} could not be made: see the first test that needed it"
                folder.mkdir()
                make(folder)
                done.touch()
        return folder

    return made_once


@pytest.fixture(scope="session", autouse=True)
def own_temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Locks of devices lie in the temporary folder: test processes side by side do not wait for each other's device.
    COLUMNS, which pytest-xdist sets, is removed: output into pipes is then as wide as for a user."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("COLUMNS", raising=False)
        patch.setenv("TMPDIR", str(tmp_path_factory.getbasetemp()))
        patch.setattr(tempfile, "tempdir", None)
        yield


@pytest.fixture(autouse=True)
def host_only(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests without the mark `gpu` measure on the host, also on a machine with accelerators."""
    if "gpu" not in request.keywords:
        for variable in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
            monkeypatch.setenv(variable, "")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    import torch

    if not torch.accelerator.is_available():
        for item in items:
            if "gpu" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="needs an accelerator"))
