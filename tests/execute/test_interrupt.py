"""Runs that are ended from outside: what they leave behind. A resumed run has the rows of an undisturbed one."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import fake_program
import pandas as pd
import pytest
from common import Kbench
from fake_executor import FakeMachine

from kbench.results import table

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds workers in Linux's /proc")

SWEEP = """
operator: softmax
sweep: {M: 16, N: [64, 100, 128], dtype: float32}
providers: [torch-native, torch-eager, cuda]
baseline: torch-native
measure: {warmup_ms: 1, rep_ms: 15, rounds: 1, sessions: 2}
"""

HANG = """
operator: softmax
sweep: {M: 16, N: 64, dtype: float32}
providers: [torch-native, hangs]
plugins: [hangs.py]
measure: {warmup_ms: 1, rep_ms: 2, rounds: 1}
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
        template = _child(self.process.pid)
        return template and _child(template)

    def starts_a_worker(self) -> bool:
        """Whether there is a worker, or the template that it will be forked from."""
        return _child(self.process.pid) is not None


def _child(pid: int) -> int | None:
    """The template among the children of a run, or the worker among those of a template."""
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


KINDS = ["INT", "TERM", "KILL", "HUP"] * 3


@pytest.mark.slow
def test_interrupting_at_random_moments_changes_no_row(tmp_path: Path) -> None:
    """Interrupt, resume, interrupt ... to the end. A run that ends before it is interrupted ends a chain, and the next
    begins another."""
    reference, folder = (new_folder(tmp_path, name, SWEEP) for name in ("reference", "chain"))
    with run(reference, program=FAKE, case_s=0) as whole:
        assert whole.wait() == 0, whole.stderr
    wanted = identities(reference)
    assert len(wanted) == 2 * 3 * (3 + 3)

    seed = random.Random(20)
    counts = []
    for kind in seed.sample(KINDS, len(KINDS)):
        with run(folder, "--resume", program=FAKE) as started:
            if seed.random() > 0.2:
                started.says("softmax on ")
            else:
                started.listens()
            with suppress(subprocess.TimeoutExpired):
                started.process.wait(timeout=seed.random() * 6 * 0.1)
            strike(started, kind)
            code = started.wait()
        counts.append(check_readable(folder, wanted))
        if code == 0:
            assert counts[-1] == len(wanted)
            shutil.rmtree(folder / "results")
        else:
            assert code == (-signal.SIGKILL if kind == "KILL" else 130), started.stderr
    with run(folder, "--resume", program=FAKE, case_s=0) as last:
        assert last.wait() == 0, last.stderr
    assert identities(folder) == wanted
    # most moments fall into a run, not before its first row or after its last
    assert sum(0 < count < len(wanted) for count in counts) >= 3, counts


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [["worker"], ["worker", "INT"], ["KILL"]], ids=["worker", "worker and INT", "KILL"])
def test_interrupting_a_run_and_its_worker_changes_no_row_and_leaves_no_process(
    tmp_path: Path, kinds: list[str]
) -> None:
    folder = new_folder(tmp_path, "run", SWEEP)
    with run(folder, "--only", "torch-native", "--sessions", "1") as started:
        assert started.says("[1/3]"), started.stderr
        for kind in kinds:
            strike(started, kind)
        code = started.wait()
    deadline = time.monotonic() + 30
    while left_in(folder) and time.monotonic() < deadline:
        assert kinds == ["KILL"], f"{kinds} has left {left_in(folder)}"
        time.sleep(0.05)
    assert left_in(folder) == []
    assert code == {"worker": 0, "INT": 130, "KILL": -signal.SIGKILL}[kinds[-1]], started.stderr
    found = [(row[4], row[1], row[8]) for row in identities(folder)]
    rows = ("torch-native", "copy", "empty", "repeat")
    wanted = [(n, name, "ok") for n in (64, 100, 128) for name in rows]
    assert found == wanted[: len(found)] and len(found) >= len(rows)
    assert len(found) == len(wanted) or code != 0


def check_readable(folder: Path, wanted: list[list[Any]]) -> int:
    """Check that the file can be read, and that its rows are the first of the wanted ones. Returns their number."""
    path = folder / "results" / "sweep.csv"
    if not path.exists():
        return 0
    rows = table.read_results(path)
    assert rows[IDENTITY].astype({"M": int, "N": int}).values.tolist() == wanted[: len(rows)]
    return len(rows)


def strike(target: Run, kind: str) -> None:
    if kind != "worker":
        target.process.send_signal(getattr(signal, f"SIG{kind}"))  # nothing happens when it has ended
    elif pid := target.worker():
        os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["INT", "TERM"])
def test_a_signal_during_worker_startup_ends_the_run(tmp_path: Path, name: str) -> None:
    folder = new_folder(tmp_path, "run", SWEEP)
    with run(folder) as started:
        while not started.starts_a_worker():
            time.sleep(0.01)
        time.sleep(0.3)
        assert ended(started, name) == 130, started.stderr
    assert "Traceback" not in started.stderr and "interrupted" in started.stderr
    assert left_in(folder) == [] and not (folder / "results" / "sweep.csv").exists()


def test_ctrl_c_at_any_moment_is_exit_130(tmp_path: Path) -> None:
    """Also in the middle of an exec() of a string, which CPython answers with a SIGINT to itself when a module ends."""
    script = "from kbench import interrupts\ntry: exec('raise KeyboardInterrupt')\nexcept KeyboardInterrupt: pass\n"
    (tmp_path / "program.py").write_text(script + "interrupts.end()\nraise SystemExit(130)")
    found = subprocess.run([sys.executable, "-m", "program"], cwd=tmp_path, capture_output=True, check=False)
    assert found.returncode == 130, found.stderr


@pytest.mark.slow
def test_a_signal_during_a_hang_ends_the_run_its_worker_and_what_that_has_started(tmp_path: Path) -> None:
    folder = new_folder(tmp_path, "run", HANG)
    with run(folder, "--only", "torch-native,hangs") as started:
        hanging(started, folder)
        assert ended(started, "INT", times=3) == 130, started.stderr
    assert "Traceback" not in started.stderr
    assert left_in(folder) == []


@pytest.mark.slow
def test_a_signal_while_judge_checks_ends_it_its_worker_and_what_that_has_started(tmp_path: Path) -> None:
    folder = new_folder(tmp_path, "judge", SWEEP)
    with run(folder, command=("judge", "hangs.py", "--against", "sweep.yaml", "--provider", "hangs")) as started:
        hanging(started, folder)
        assert ended(started, "INT", times=3) == 130, started.stderr
    assert "Traceback" not in started.stderr
    assert left_in(folder) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["INT", "TERM", "HUP", "QUIT"])
def test_a_signal_ends_the_run_and_it_says_how_to_go_on(tmp_path: Path, name: str) -> None:
    folder = new_folder(tmp_path, "run", SWEEP)
    with run(folder, "--only", "torch-native,cuda", program=FAKE, case_s=600) as started:
        marked(started, folder / "measuring")
        assert ended(started, name) == 130, started.stderr
    assert "continue with: kbench run sweep.yaml --no-plot --only torch-native,cuda --resume" in started.stderr
    assert "Traceback" not in started.stderr
    environment = json.loads((folder / "results" / "sweep.env.json").read_text())
    assert environment["interrupted"] is True and environment["finished_at"]


def ended(target: Run, name: str, times: int = 1) -> int:
    """Send the signal, and return the exit code of the run that it ends."""
    for _ in range(times):
        target.process.send_signal(getattr(signal, f"SIG{name}"))
        time.sleep(0.01)
    return target.wait()


@pytest.fixture
def hangs(kbench: Kbench, tmp_path: Path) -> Kbench:
    """Run a sweep while another thread kills each worker that hangs, up to `times` workers. Returns the program's output."""

    def run(provider: str, times: int) -> subprocess.CompletedProcess[str]:
        (tmp_path / "sweep.yaml").write_text(HANG.replace("[torch-native, hangs]", f"[torch-native, {provider}]"))
        (tmp_path / "hangs.py").write_text(HANGS)
        marker, ended = tmp_path / "hanging", threading.Event()

        def kill() -> None:
            killed = ""
            for _ in range(times):
                while not marker.exists() or (found := marker.read_text()) in ("", killed):
                    if ended.wait(0.01):
                        return
                os.kill(int(found), signal.SIGKILL)
                killed = found

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            return kbench("run", "sweep.yaml", "--no-plot")
        finally:
            ended.set()
            killer.join()

    return run


@pytest.mark.slow
def test_a_worker_that_is_killed_from_outside_costs_nobody_a_row(hangs: Kbench, tmp_path: Path) -> None:
    done = hangs("hangs-once", 1)
    assert done.returncode == 0, done.stderr
    assert "the worker was killed by SIGKILL while building" in done.stderr and "trying once more" in done.stderr
    rows = pd.read_csv(tmp_path / "results" / "sweep.csv")
    assert list(rows.provider) == ["torch-native", "hangs-once", "copy", "empty", "repeat"]
    assert (rows.status == "ok").all()


@pytest.mark.slow
def test_a_provider_that_gets_its_worker_killed_twice_is_blamed(hangs: Kbench, tmp_path: Path) -> None:
    done = hangs("hangs", 2)
    assert done.returncode == 1, done.stderr
    assert "trying once more" in done.stderr
    rows = pd.read_csv(tmp_path / "results" / "sweep.csv").set_index("provider")
    assert rows.loc["torch-native"].status == "ok"
    assert rows.loc["hangs"].status == "crashed" and "SIGKILL" in rows.loc["hangs"].reason


# -- two at a time


@pytest.mark.slow
def test_the_second_run_on_a_device_waits_or_leaves(tmp_path: Path) -> None:
    folder = new_folder(tmp_path, "run", SWEEP)
    other = folder / "other"
    one_case = ("--out", str(other), "--set", "N=64", "--sessions", "1")
    with run(folder, program=FAKE, case_s=600) as first:
        marked(first, folder / "measuring")
        with run(folder, *one_case, "--no-wait", program=FAKE) as second:
            assert second.wait() == 3
        assert f"is in use by process {first.process.pid} since 20" in second.stderr
        assert "(kbench run sweep.yaml --no-plot)" in second.stderr
        assert not (other / "sweep.csv").exists()
        with run(folder, *one_case, "--only", "torch-native", program=FAKE) as second:
            assert second.says(f"in use by process {first.process.pid}")
            assert not (other / "sweep.csv").exists()
            first.process.kill()  # a dead holder does not block
            assert second.wait() == 0, second.stderr
    assert list(pd.read_csv(other / "sweep.csv").provider) == ["torch-native", "copy", "empty", "repeat"]


def test_what_measures_nothing_takes_no_lock(
    kbench: Kbench, fake_machine: FakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = tmp_path / "locks"
    locks.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(locks))
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    assert kbench("run", "sweep.yaml", "--dry-run", "--no-wait").returncode == 0
    assert not list(locks.iterdir())
    assert kbench("run", "sweep.yaml", "--no-plot").returncode == 0
    assert list(locks.glob("*.lock"))
