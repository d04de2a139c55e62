"""Runs that are killed, interrupted, held up or out of disk: what was measured stays, and the run can be continued."""

from __future__ import annotations

import errno
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from promises.outside import Ended, MadeOnce, keep, kept, rows_of, run_kbench, start, wait_for

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")


PLUGIN = """
import os
import subprocess
import time
from pathlib import Path

import torch

import kbench

HERE = Path(__file__).parent


@kbench.operator("softmax").provider("waits")
def waits(x):
    hold = HERE / f"hold-{x.shape[1]}"
    if hold.exists():
        child = subprocess.Popen(["sleep", "600"])
        (HERE / "held").touch()
        while hold.exists():
            time.sleep(0.02)
        child.kill()
        child.wait()
    return torch.softmax(x, 1)
"""
CONFIG = """
operator: softmax
plugins: [waits.py]
sweep: {M: 4, N: [16, 24, 32]}
providers: [torch-native, waits]
measure: {rounds: 2, warmup_ms: 1, rep_ms: 2, cache: warm}
"""
FOREIGN = "name,age\nAda,36\n"
NAMES = ["torch-native", "waits", "copy", "empty", "repeat"]
RUN = ("run", "sweep.yaml", "--no-plot")
LIMIT_S = 90


def processes_of(folder: Path) -> list[bytes]:
    """The command lines of the processes that descend from a command of this test: they have inherited its variable."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"KBENCH_PROMISE={folder}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_bytes())
        except OSError:
            continue  # it has ended, or is somebody else's
    return found


class Scene:
    """A folder with a sweep of three cases. Its provider waits in each case for which there is a file `hold-N`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.results = folder, folder / "results" / "sweep.csv"
        (folder / "sweep.yaml").write_text(CONFIG)
        (folder / "waits.py").write_text(PLUGIN)

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        return start(*RUN, *arguments, folder=self.folder, KBENCH_PROMISE=str(self.folder))

    def start_and_hold(self, size: int, *arguments: object) -> subprocess.Popen[str]:
        """Start a run, and return when its provider waits in the case of this size."""
        for path in self.folder.glob("hold-*"):
            path.unlink()
        (self.folder / "held").unlink(missing_ok=True)
        (self.folder / f"hold-{size}").touch()
        process = self.start(*arguments)
        wait_for((self.folder / "held").exists, process)
        return process

    def let_go(self, size: int) -> None:
        (self.folder / f"hold-{size}").unlink()

    def keep(self, process: subprocess.Popen[str], name: str) -> None:
        """Keep how a process ended, the results as they are then, and whether it has left a process behind."""
        out, err = process.communicate(timeout=LIMIT_S)
        keep(Ended(process.returncode, out, err), self.folder, name)
        if self.results.exists():
            (self.folder / f"{name}.csv").write_bytes(self.results.read_bytes())
        try:
            wait_for(lambda: not processes_of(self.folder))
        except AssertionError:
            (self.folder / f"{name}.left").write_text(str(processes_of(self.folder)))


def measured(path: Path) -> list[tuple[str, str, str]]:
    return [(row["N"], row["provider"], row["status"]) for row in rows_of(path)]


def expected(*sizes: int) -> list[tuple[str, str, str]]:
    return [(str(size), name, "ok") for size in sizes for name in NAMES]


@pytest.fixture
def scene(made_once: MadeOnce) -> Path:
    """One sweep that finds a file of another program, is killed, interrupted, robbed of its file and finished; two others
    come in between."""

    def make(folder: Path) -> None:
        scene = Scene(folder)
        scene.results.parent.mkdir()
        scene.results.write_text(FOREIGN)
        keep(run_kbench(*RUN, "--resume", folder=folder), folder, "refused")
        (folder / "refused.csv").write_bytes(scene.results.read_bytes())
        first = scene.start_and_hold(24)
        (folder / "pid").write_text(str(first.pid))
        keep(run_kbench(*RUN, "--no-wait", "--out", "other", folder=folder), folder, "leaves")
        second = scene.start("--out", "other")
        assert second.stderr is not None
        said = ""
        while f"{first.pid}" not in said:
            said += second.stderr.readline()
            assert second.poll() is None, said
        (folder / "waiting").write_text(said)
        second.send_signal(signal.SIGTERM)
        out, err = second.communicate(timeout=LIMIT_S)
        keep(Ended(second.returncode, out, said + err), folder, "waits")

        first.kill()
        scene.keep(first, "killed")
        with scene.results.open("a") as file:
            file.write("softmax,torch-native,,4,2")  # a machine that stops may leave a part of a row

        third = scene.start_and_hold(24, "--resume")
        third.send_signal(signal.SIGINT)
        scene.keep(third, "interrupted")

        fourth = scene.start_and_hold(32, "--resume")
        scene.results.unlink()
        scene.let_go(32)
        scene.keep(fourth, "finished")
        scene.keep(scene.start("--resume"), "again")

    return made_once("interrupted", make)


def test_a_second_run_on_a_device_names_the_process_that_uses_it_and_with_no_wait_ends_with_3(scene: Path) -> None:
    ended, pid = kept(scene, "leaves"), (scene / "pid").read_text()
    assert ended.code == 3 and re.search(rf"\b{pid}\b", ended.err)
    assert not (scene / "other" / "sweep.csv").exists()


def test_a_second_run_on_a_device_says_so_and_waits_until_sigterm_ends_it_with_130(scene: Path) -> None:
    said, pid = (scene / "waiting").read_text(), (scene / "pid").read_text()
    assert re.search(rf"\b{pid}\b.*wait", said) and "--no-wait" in said
    ended = kept(scene, "waits")
    assert ended.code == 130 and "Traceback" not in ended.text


def test_a_killed_run_keeps_the_cases_that_it_has_finished_and_no_process_stays(scene: Path) -> None:
    assert kept(scene, "killed").code == -signal.SIGKILL
    assert measured(scene / "killed.csv") == expected(16)
    assert {path.name: path.read_text() for path in scene.glob("*.left")} == {}


def test_ctrl_c_ends_a_run_with_130_and_the_command_that_continues_it(scene: Path) -> None:
    ended = kept(scene, "interrupted")
    [line] = [line for line in ended.err.splitlines() if "--resume" in line]
    assert ended.code == 130 and "Traceback" not in ended.text
    assert "kbench run sweep.yaml" in line and "--no-plot" in line


def test_a_torn_last_row_is_named_with_its_line_and_its_case_is_measured_again(scene: Path) -> None:
    assert "sweep.csv:7" in kept(scene, "interrupted").err
    assert measured(scene / "interrupted.csv") == expected(16)
    assert (scene / "interrupted.csv").read_bytes() == (scene / "killed.csv").read_bytes()


def test_resume_measures_the_missing_cases_only_and_writes_a_file_again_that_was_removed_meanwhile(scene: Path) -> None:
    finished = (scene / "finished.csv").read_bytes()
    assert finished.startswith((scene / "killed.csv").read_bytes())
    assert measured(scene / "finished.csv") == expected(16, 24, 32)
    assert kept(scene, "finished").code == 0
    assert re.search(r"sweep\.csv.* again", kept(scene, "finished").err)


def test_resume_of_a_finished_file_measures_nothing(scene: Path) -> None:
    assert kept(scene, "again").code == 0
    assert (scene / "again.csv").read_bytes() == (scene / "finished.csv").read_bytes()


def test_a_full_disk_is_one_sentence_and_keeps_the_finished_cases(folder: Path) -> None:
    scene = Scene(folder)
    command = [sys.executable, "-m", "kbench", *RUN]
    limit_bytes = 4500  # the environment file fits, and the rows of one or two of the three cases
    limited = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},  # Python would leave files of its own that end early
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes)),
    )
    errors = [line for line in limited.stderr.splitlines() if "error" in line]
    assert limited.returncode not in (0, 70) and "Traceback" not in limited.stderr
    assert len(errors) == 1 and "sweep.csv" in errors[0] and os.strerror(errno.EFBIG) in errors[0]
    assert measured(scene.results) in (expected(16), expected(16, 24))


def test_a_file_of_another_program_is_never_overwritten(scene: Path) -> None:
    refused = kept(scene, "refused")
    assert refused.code == 2 and "sweep.csv" in refused.err and (scene / "refused.csv").read_text() == FOREIGN
    assert FOREIGN in [path.read_text() for path in (scene / "results").glob("*.csv")]
