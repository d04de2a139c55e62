"""Runs that a signal ends: their worker and what that has started end too, and a resumed run has the rows of an undisturbed
one."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import fake_program
import pytest

from kbench.results.frame import frame_of
from kbench.results.reader import read_results

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds workers in Linux's /proc")

SWEEP = """
operator: softmax
sweep: {M: 16, N: [64, 100, 128], dtype: float32}
providers: [torch-native, torch-eager, cuda]
baseline: torch-native
measure: {warmup_ms: 1, rep_ms: 15, rounds: 1, sessions: 2}
"""

IDENTITY = ["operator", "provider", "params", "M", "N", "dtype", "role", "session", "status"]


class Run:
    """`kbench run` in a folder, with locks of its own. `case_s`: on a made-up machine (see fake_program.py), where a case takes
    so long."""

    def __init__(self, folder: Path, *options: str, case_s: float | None = None) -> None:
        self.folder = folder
        program = ("-m", "kbench") if case_s is None else (fake_program.__file__, "kbench")
        with (folder / "stderr").open("w") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, *program, "run", "sweep.yaml", "--no-plot", *options],
                cwd=folder,
                env=os.environ | {"TMPDIR": str(folder), "FAKE_CASE_S": str(case_s)},
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )

    @property
    def stderr(self) -> str:
        return (self.folder / "stderr").read_text()

    def wait(self, until: Callable[[], object] | None = None) -> int:
        """Wait until something has happened, or the run has ended. Returns its exit code."""
        while until and not until() and self.process.poll() is None:
            time.sleep(0.01)
        return -1 if until else self.process.wait(timeout=120)

    def listens(self) -> bool:
        """Whether kbench handles signals. Before that they end Python while it starts."""
        caught = re.search(r"^SigCgt:\s*(\w+)", Path(f"/proc/{self.process.pid}/status").read_text(), re.MULTILINE)
        return bool(caught and int(caught[1], 16) >> (signal.SIGQUIT - 1) & 1)  # the last that kbench sets

    def has_worker(self) -> bool:
        return any(b"kbench.measure" in line for line in left_in(self.folder))

    def end(self, name: str) -> int:
        """Send the signal. Returns the exit code."""
        self.process.send_signal(getattr(signal, f"SIG{name}"))  # nothing happens when it has ended
        return self.wait()


Start = Callable[..., Run]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    runs: list[Run] = []

    def start(name: str, *options: str, **more: Any) -> Run:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / "sweep.yaml").write_text(SWEEP)
        runs.append(Run(folder, *options, **more))
        return runs[-1]

    yield start
    for run in runs:
        run.process.kill()
        run.process.wait()


def left_in(folder: Path) -> list[bytes]:
    """Command lines of processes that work in this folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended while we looked
            if (process / "cwd").resolve() == folder.resolve():
                found.append((process / "cmdline").read_bytes())
    return [line for line in found if line]


def identities(folder: Path) -> list[list[Any]]:
    """The cells of the rows that say what was measured; none if there is no file."""
    path = folder / "results" / "sweep.csv"
    if not path.exists():
        return []
    rows: list[list[Any]] = frame_of(read_results(path))[IDENTITY].astype({"M": int, "N": int}).values.tolist()
    return rows


@pytest.mark.slow
def test_a_signal_during_worker_startup_ends_the_run(start: Start) -> None:
    run = start("run")
    run.wait(run.has_worker)
    time.sleep(0.3)
    assert run.end("TERM") == 130, run.stderr
    assert "Traceback" not in run.stderr and "interrupted" in run.stderr
    assert left_in(run.folder) == [] and not (run.folder / "results" / "sweep.csv").exists()


@pytest.mark.slow
def test_interrupting_at_random_moments_changes_no_row(start: Start) -> None:
    """Interrupt, resume, interrupt ... to the end. A run that ends before it is interrupted ends a chain, and the next
    begins another."""
    reference = start("reference", case_s=0)
    assert reference.wait() == 0, reference.stderr
    wanted = identities(reference.folder)
    assert len(wanted) == 2 * 3 * (3 + 3)
    seed = random.Random(20)
    counts = []
    for kind in seed.sample(kinds := ["INT", "TERM", "KILL", "HUP"] * 3, len(kinds)):
        run = start("chain", "--resume", case_s=0.1)
        run.wait(run.listens if seed.random() < 0.2 else lambda run=run: "softmax on " in run.stderr)
        with suppress(subprocess.TimeoutExpired):
            run.process.wait(timeout=seed.random() * 6 * 0.1)
        code = run.end(kind)
        rows = identities(run.folder)
        assert rows == wanted[: len(rows)]
        counts.append(len(rows))
        if code == 0:
            assert rows == wanted
            shutil.rmtree(run.folder / "results")
        else:
            assert code in ((-signal.SIGKILL,) if kind == "KILL" else (130, -signal.SIGINT)), run.stderr
    last = start("chain", "--resume", case_s=0)
    assert last.wait() == 0, last.stderr
    assert identities(last.folder) == wanted
    # most moments fall into a run, not before its first row or after its last
    assert sum(0 < count < len(wanted) for count in counts) >= 3, counts
