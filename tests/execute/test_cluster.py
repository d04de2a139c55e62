"""A dask cluster on loopback: the same rows as on one host, even if workers are killed. Workers with other code are refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from common import ROOT, Kbench, run_kbench
from fake_executor import machine_info
from stand_in import SETTINGS

from kbench.config import load
from kbench.errors import DeviceGone
from kbench.execute.executor import Finished
from kbench.execute.executors.code_identity import RunFiles, compare_code, identify_code
from kbench.execute.plan import Task
from kbench.execute.supervision.fit import Misfit
from kbench.protocol import DeviceInfo
from kbench.results.case import Case

IDENTITY = ["operator", "provider", "params", "M", "N", "dtype", "role", "session", "status"]

SHORT = ["--no-plot", "--plugin", "hangs.py", "--only", "torch-native,torch-jit,cuda,hangs-once"]
SHORT += ["--set", "M=64", "--set", "N=" + ",".join(map(str, range(256, 4352, 128)))]
SHORT += ["--set", "warmup_ms=1", "--set", "rep_ms=5", "--set", "rounds=1", "--set", "cache=warm"]

HANGS = """
import os, time, torch, kbench

softmax = kbench.operator("softmax")

@softmax.provider("hangs-once")
def hangs_once(x):
    if x.shape[1] == 1024:  # never the first case
        try:
            with open("hanging", "x") as marker:
                marker.write(str(os.getppid()))
            time.sleep(600)
        except FileExistsError:
            pass
    return torch.softmax(x, -1)
"""


class Dask:
    """A scheduler and its workers, each a separate process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        file = folder / "scheduler.json"
        file.unlink(missing_ok=True)
        self.scheduler = self.start("scheduler", folder, "--host", "127.0.0.1", "--port", "0", "--scheduler-file", file)
        wait_for(lambda: file.exists() and file.read_text().rstrip().endswith("}"))  # dask writes it in two steps
        self.address: str = json.loads(file.read_text())["address"]

    def workers(self, *folders: Path) -> None:
        """Start a worker in each of these folders, named after it, and wait for them."""
        from distributed import Client

        for number, folder in enumerate(folders):
            own = tempfile.mkdtemp(dir=self.folder)  # and so locks of its own: on one host they would take turns
            options = ["--no-nanny", "--nthreads", "1", "--name", f"{folder.name}-{number}"]
            self.start("worker", folder, self.address, *options, TMPDIR=own)
        with Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(len(folders), timeout=60)
            found = client.scheduler_info(n_workers=-1)["workers"]
            self.names = {worker["name"]: address.removeprefix("tcp://") for address, worker in found.items()}

    def start(self, what: str, folder: Path, *arguments: object, **variables: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--no-dashboard", *map(str, arguments)]
        with (self.folder / "dask.log").open("ab") as log:
            self.processes.append(
                subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=os.environ | variables)
            )
        return self.processes[-1]


def wait_for(condition: Any, limit_s: float = 180) -> Any:
    deadline = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


@contextmanager
def dask(folder: Path) -> Iterator[Dask]:
    started = Dask(folder)
    try:
        yield started
    finally:
        for process in started.processes:
            process.kill()
            process.wait()


@contextmanager
def run(folder: Path, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "kbench", "run", *map(str, arguments)]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def identities(folder: Path) -> list[list[Any]]:
    rows = pd.read_csv(folder / "results" / "softmax.csv", keep_default_na=False)
    return sorted(rows[IDENTITY].values.tolist())


def new_folder(parent: Path, name: str, text: str = HANGS) -> Path:
    folder = parent / name
    folder.mkdir()
    (folder / "hangs.py").write_text(text)
    return folder


@pytest.fixture(autouse=True)
def distributed() -> Any:
    return pytest.importorskip("distributed")


@pytest.mark.slow
def test_a_cluster_gives_the_rows_of_one_host_whatever_is_killed(tmp_path: Path, warm_workers: None) -> None:
    config = ROOT / "configs" / "softmax.yaml"
    alone = new_folder(tmp_path, "alone")
    (alone / "hanging").touch()  # so that nothing hangs
    local = run_kbench(["run", config, *SHORT], alone)
    assert local.returncode == 0, local.stderr
    here, elsewhere = new_folder(tmp_path, "here"), new_folder(tmp_path, "elsewhere", HANGS + "# faster now\n")
    with dask(here) as first:
        first.workers(here, here, elsewhere)

        # a worker is killed in the middle of a case, then the scheduler
        with run(here, config, *SHORT, "--scheduler", first.address) as killed:
            os.kill(
                int(wait_for(lambda: (here / "hanging").exists() and (here / "hanging").read_text())),
                signal.SIGKILL,
            )
            csv = here / "results" / "softmax.csv"
            wait_for(lambda: csv.exists() and len(csv.read_text().splitlines()) > 1)
            first.scheduler.kill()
            _, errors = killed.communicate(timeout=120)
    assert f"{first.names['elsewhere-2']} is refused: plug-in hangs.py differs: " in errors
    left = len(identities(here))
    last = errors.splitlines()[-1]
    if killed.returncode != 0:  # else it was done before the scheduler was killed
        assert killed.returncode == 3 and left < len(identities(alone))
        assert (
            last
            == f"error: {first.address}: the scheduler is gone; start it again or choose another, and continue with --resume"
        )
    assert "Traceback" not in errors
    with dask(here) as second:
        second.workers(here)
        with run(here, config, *SHORT, "--scheduler", second.address, "--resume") as resumed:
            _, errors = resumed.communicate(timeout=120)
            assert resumed.returncode == 0, errors
    assert identities(here) == identities(alone)


def test_without_dask_says_what_to_install(kbench: Kbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)  # as if it could not be imported
    monkeypatch.delitem(sys.modules, "kbench.execute.executors.cluster", raising=False)
    done = kbench("run", ROOT / "configs" / "softmax.yaml", "--scheduler", "tcp://127.0.0.1:8786")
    assert done.returncode == 3
    assert (
        done.stderr
        == "error: --scheduler: Python package 'distributed' is not installed; pip install 'distributed>=2024.8'\n"
    )


def test_what_tells_two_checkouts_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        folder = new_folder(tmp_path, name, "import kbench\n")
        (folder / "sweep.yaml").write_text(
            "operator: softmax\nsweep: {M: 1, N: 1}\nproviders: [mine]\nplugins: [hangs.py]\n"
        )
    monkeypatch.chdir(tmp_path / "one")
    loaded = load.load_config("sweep.yaml")
    files = RunFiles.of(loaded.path, loaded.plugins)
    wanted = identify_code(files)
    monkeypatch.chdir(tmp_path / "two")
    assert identify_code(files) == wanted, "each machine may have its checkout where it likes"
    Path("hangs.py").write_text("import kbench, torch\n")
    (difference,) = compare_code(wanted, identify_code(files))
    assert difference.startswith("plug-in hangs.py differs: ")
    Path("hangs.py").write_text("import kbench\n")
    Path("sweep.yaml").write_text("operator: gelu\n")
    assert compare_code(wanted, identify_code(files))[0].startswith("config sweep.yaml differs: ")
    monkeypatch.chdir(tmp_path)
    assert identify_code(files) == wanted, "a shared file system will do as well"
    (tmp_path / "one" / "sweep.yaml").unlink()
    assert compare_code(wanted, identify_code(files)) == [], "a worker needs no config"
    (tmp_path / "one" / "hangs.py").unlink()
    assert "plug-in hangs.py is missing" in compare_code(wanted, identify_code(files))[0]
    assert compare_code(wanted, wanted | {"kbench": "0.0", "installed plug-in x": "1"}) == [
        f"kbench differs: 0.0 there, {wanted['kbench']} in this run",
        "installed plug-in x is missing where the run was started",
    ]


def task(n: int, session: int = 0) -> Task:
    return Task(Case("softmax", {"N": n}, "float32"), (), None, SETTINGS, session)


def test_jobs_are_cases_with_their_sessions_unless_spread() -> None:
    from kbench.execute.executors.cluster import _jobs

    first, second, again = task(1), task(2), task(1, session=1)
    assert list(_jobs([first, second, again], False)) == [(first, again), (second,)]
    assert list(_jobs([first, second, again], True)) == [(first,), (second,), (again,)]


class Stub:
    """Replaces WorkerSupervisor. The process of session 1 cannot be started, that of session 2 has other code."""

    stopped = 0

    def __init__(self, plugins: Any, note: Any, *, place: str, history: Any) -> None:
        self.note = note

    def ready(self, task: Task) -> Any:
        if task.session == 1:
            raise DeviceGone("it fell off the bus")
        if task.session == 2:
            raise Misfit("the hash of the code of provider triton", "3fa1", "9c2e")
        return SimpleNamespace(catalog=SimpleNamespace(device=DeviceInfo("cpu", "host")))

    def measure(self, task: Task, listener: Any) -> Finished:
        self.note(f"building for {task.case.N}")
        return Finished(task, [], DeviceInfo("cpu", "host"), machine_info())

    def stop(self) -> None:
        Stub.stopped += 1


def test_the_result_of_a_job_has_all_tasks_or_says_why_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from kbench.execute.executors import cluster_worker

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(cluster_worker, "WorkerSupervisor", Stub)
    monkeypatch.setattr(cluster_worker, "IDLE_LIMIT_S", 0.05)
    session = cluster_worker.WorkerSession("tcp://there", [])
    for line in (
        "a GPU is in use by process 7; waiting",
        "cannot tell whether another run uses a GPU; measuring anyway",
    ) * 2:
        session._note_wait(line)
    assert session._notes == [
        "takes turns on a shared device: a GPU is in use by process 7",
        "cannot tell whether another run uses a GPU; measuring anyway",
    ]
    first, second = (session.measure([task(n)]) for n in (1, 2))
    assert (len(first.finished), first.notes, first.gone) == (1, ["building for 1"], "")
    assert second.notes == ["building for 2"]
    lost = session.measure([task(3), task(3, session=1)])
    assert (lost.finished, lost.gone) == ([], "it fell off the bus"), "sessions stay on one device, or move together"
    other = session.measure([task(3, session=2)])
    assert (other.finished, lost.fits, other.fits) == ([], True, False)
    assert other.gone == "the hash of the code of provider triton is 3fa1 there, but 9c2e in this run"
    wait_for(lambda: Stub.stopped == 3)  # nothing to do: all processes are ended
