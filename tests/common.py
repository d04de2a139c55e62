"""Functions and constants that tests share. Fixtures are in conftest.py, which tests cannot import by name."""

from __future__ import annotations

import functools
import os
import re
import runpy
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


@functools.cache
def register_plugin(name: str) -> None:
    """Register the operators of a file of tests/plugins in this process. A module's fixture may run twice in a process, when
    its tests are divided among processes; a name can be registered once."""
    runpy.run_path(str(PLUGINS / name))


def run_kbench(arguments: Sequence[object], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the program `kbench` in this process, in a folder, without a terminal. Its workers are separate processes.

    Afterwards the streams, working folder, signal handlers, arguments and warnings of this process are restored.
    """
    from kbench.__main__ import main

    words = ["kbench", *map(str, arguments)]
    code: object = 0
    with _streams_in_files() as written, _restored(folder, words):
        try:
            main()
        except SystemExit as end:
            code = end.code
    return subprocess.CompletedProcess(words, int(str(code or 0)), *written)


@contextmanager
def _streams_in_files() -> Iterator[list[str]]:
    """Replace stdout and stderr with files. At the end the list holds the content of both files."""
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
def _restored(folder: Path, arguments: list[str]) -> Iterator[None]:
    handlers = {number: signal.getsignal(number) for number in interrupts.ENDING_SIGNALS}
    here, words, show = Path.cwd(), sys.argv, warnings.showwarning
    os.chdir(folder)
    sys.argv = arguments
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _print_warning  # on stderr, as for a user
            warnings.simplefilter("default")
            for silent in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
                warnings.simplefilter("ignore", silent)  # Python ignores these by default
            yield
    finally:
        sys.argv, warnings.showwarning = words, show
        os.chdir(here)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _print_warning(message: object, *where: object, **more: object) -> None:
    print(f"warning: {message}", file=sys.stderr)
