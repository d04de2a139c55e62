"""Names that tests share. Fixtures are in conftest.py, which no test imports: every folder may have one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from filelock import FileLock

from kbench import interrupts

ROOT = Path(__file__).resolve().parents[1]
PLUGINS = Path(__file__).parent / "plugins"

Kbench = Callable[..., "subprocess.CompletedProcess[str]"]


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[], str]) -> str:
    """What `make` returns. Test processes that run side by side share a file: the first of them makes it."""
    folder = factory.getbasetemp()
    shared = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / name
    with FileLock(f"{shared}.lock"):
        if not shared.exists():
            shared.write_text(make())
    return shared.read_text()


def run_kbench(arguments: Sequence[object], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the program `kbench` in this process, in a folder, without a terminal. What it starts are processes.

    The program leaves this process as it was: its streams, working folder, signal handlers, arguments and warnings.
    """
    from kbench.__main__ import main

    words = ["kbench", *map(str, arguments)]
    code: object = 0
    with _streams_in_files() as written, _as_it_was(folder, words):
        try:
            main()
        except SystemExit as end:
            code = end.code
    return subprocess.CompletedProcess(words, int(str(code or 0)), *written)


@contextmanager
def _streams_in_files() -> Iterator[list[str]]:
    """Put files in the place of stdout and stderr. At the end the list holds what was written to the two."""
    before, written = (sys.stdout, sys.stderr), list[str]()
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out, tempfile.TemporaryFile("w+", encoding="utf-8") as err:
        sys.stdout, sys.stderr = out, err
        try:
            yield written
        finally:
            sys.stdout, sys.stderr = before
            for file in (out, err):
                file.seek(0)
                written.append(file.read())


@contextmanager
def _as_it_was(folder: Path, arguments: list[str]) -> Iterator[None]:
    handlers = {number: signal.getsignal(number) for number in interrupts.ENDING_SIGNALS}
    here, words, show = Path.cwd(), sys.argv, warnings.showwarning
    os.chdir(folder)
    sys.argv = arguments
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _print_warning  # on stderr, where a user would meet it
            warnings.simplefilter("default")
            for silent in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
                warnings.simplefilter("ignore", silent)  # as Python does
            yield
    finally:
        sys.argv, warnings.showwarning = words, show
        os.chdir(here)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _print_warning(message: object, *where: object, **more: object) -> None:
    print(f"warning: {message}", file=sys.stderr)


NO_FILES = ("FIFO", "device", "folder", "loop of links", "3 GB")


def make_no_file(path: Path, kind: str) -> None:
    """Put something of a kind of NO_FILES where a file is expected."""
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "3 GB":
        with path.open("wb") as sparse:
            sparse.truncate(3 << 30)
    else:
        path.symlink_to("/dev/zero" if kind == "device" else path)
