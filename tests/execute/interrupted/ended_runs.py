"""What the tests of runs that are ended from outside share: a run in a folder of its own, and what it leaves behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fake_program
import pandas as pd
import pytest

ON_LINUX = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds workers in Linux's /proc")

SWEEP = """
operator: softmax
sweep: {M: 16, N: [64, 100, 128], dtype: float32}
providers: [torch-native, torch-eager, cuda]
baseline: torch-native
measure: {warmup_ms: 1, rep_ms: 15, rounds: 1, sessions: 2}
"""

HANGS = """
import os, pathlib, subprocess, time, torch, kbench

softmax, marker = kbench.operator("softmax"), pathlib.Path("hanging")

@softmax.provider("hangs")
def hangs(x):
    subprocess.Popen(["sleep", "600"], start_new_session=True)  # a compiler, say
    marker.write_text(str(os.getpid()))
    time.sleep(600)

@softmax.provider("hangs-once")
def hangs_once(x):
    return torch.softmax(x, -1) if marker.exists() else hangs(x)
"""

IDENTITY = ["operator", "provider", "params", "M", "N", "dtype", "role", "session", "status"]

PROGRAM = ("-m", "kbench")

FAKE = (fake_program.__file__, "kbench")
"""The same program on a machine that is made up. See fake_program.py."""


class Run:
    """A `kbench run`, or another command, in a folder of its own, with locks of its own: tests do not wait for each other."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        program: tuple[str, ...] = PROGRAM,
        case_s: float = 0.1,
        command: tuple[str, ...] = ("run", "sweep.yaml", "--no-plot"),
    ) -> None:
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, *program, *command, *options],
            cwd=folder,
            env=os.environ | {"TMPDIR": str(folder), "FAKE_CASE_S": str(case_s)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stderr
        self.lines.extend(iter(self.process.stderr.readline, ""))

    @property
    def stderr(self) -> str:
        return "".join(self.lines)

    def says(self, text: str) -> bool:
        """Wait until stderr contains the text. False when the run ends first."""
        while self.process.poll() is None and text not in self.stderr:
            time.sleep(0.01)
        return text in self.stderr

    def wait(self) -> int:
        code = self.process.wait(timeout=120)
        self.reader.join()
        return code

    def listens(self) -> None:
        """Wait until kbench handles signals. Before that they end Python while it starts."""
        status = Path(f"/proc/{self.process.pid}/status")
        while self.process.poll() is None:
            caught = re.search(r"^SigCgt:\s*(\w+)", status.read_text(), re.MULTILINE)
            if caught and int(caught[1], 16) >> (signal.SIGQUIT - 1) & 1:  # the last that kbench sets
                return
            time.sleep(0.005)

    def worker(self) -> int | None:
        """The process id of its worker; None between two workers."""
        pid = self.process.pid
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:
            return None
        return next((int(child) for child in children if b"kbench.measure" in command_line(int(child))), None)


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@contextmanager
def run(folder: Path, *options: str, **more: Any) -> Iterator[Run]:
    started = Run(folder, *options, **more)
    try:
        yield started
    finally:
        started.process.kill()
        started.wait()


def left_in(folder: Path) -> list[bytes]:
    """Command lines of processes that work in this folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").resolve() == folder.resolve():
                found.append(command_line(int(process.name)))
        except OSError:
            continue  # it ended while we looked
    return [line for line in found if line]


def identities(folder: Path) -> list[list[Any]]:
    rows = pd.read_csv(folder / "results" / "sweep.csv", keep_default_na=False)
    return rows[IDENTITY].values.tolist()


def new_folder(parent: Path, name: str, text: str) -> Path:
    folder = parent / name
    folder.mkdir()
    (folder / "sweep.yaml").write_text(text)
    (folder / "hangs.py").write_text(HANGS)
    return folder


def hanging(started: Run, folder: Path, after: int | None = None) -> int:
    """Wait until the provider hangs in a process other than `after`. Returns the process id of that worker."""
    return marked(started, folder / "hanging", after)


def marked(started: Run, marker: Path, after: int | None = None) -> int:
    """Wait until a process other than `after` has written its id into a file."""
    while started.process.poll() is None:
        if marker.exists() and (found := marker.read_text()) and int(found) != after:
            return int(found)
        time.sleep(0.01)
    raise AssertionError(started.stderr)


def ended(target: Run, name: str, times: int = 1) -> int:
    """Send the signal, and return the exit code of the run that it ends."""
    for _ in range(times):
        target.process.send_signal(getattr(signal, f"SIG{name}"))
        time.sleep(0.01)
    return target.wait()
