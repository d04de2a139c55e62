"""Several devices, and a dask cluster in plain use: the rows are those of a plain run, whatever a worker dies of."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from promises.outside import Ended, Kbench, MadeOnce, Write, keep, kept, providers_of, rows_of, start, wait_for

pytest.importorskip("distributed")

PLUGIN = """
import time
from pathlib import Path

import torch

import kbench

HERE = Path(__file__).parent
softmax = kbench.operator("softmax")


@softmax.provider("waits")
def waits(x):
    if (HERE / f"hold-{x.shape[1]}").exists():
        (HERE / "held").touch()
        while (HERE / f"hold-{x.shape[1]}").exists():
            time.sleep(0.02)
    return torch.softmax(x, 1)


@softmax.provider("raises")
def raises(x):
    raise ValueError("no rows like these")
"""
CONFIG = """
operator: softmax
plugins: [kernels.py]
sweep: {M: 4, N: [16, 24, 32]}
providers: [torch-native, waits, raises]
measure: {rounds: 2, warmup_ms: 1, rep_ms: 2, cache: warm}
"""
STATUSES = {"torch-native": "ok", "waits": "ok", "raises": "error", "copy": "ok", "empty": "ok", "repeat": "ok"}
RUN = ("run", "sweep.yaml", "--no-plot")
LIMIT_S = 120


class Cluster:
    """A scheduler and workers of dask, each a process of its own, as `dask scheduler` and `dask worker` start them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.processes = folder, list[subprocess.Popen[bytes]]()
        file = folder / "scheduler.json"
        self.scheduler = self.start("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file))
        wait_for(lambda: file.exists() and file.read_text().rstrip().endswith("}"))
        self.address: str = json.loads(file.read_text())["address"]

    def start(
        self, what: str, *arguments: str, folder: Path | None = None, **variables: str
    ) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--no-dashboard", *arguments]
        with (self.folder / "dask.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=folder or self.folder,
                stdout=log,
                stderr=log,
                env=os.environ | variables,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def add_worker(self, *options: str, folder: Path | None = None) -> subprocess.Popen[bytes]:
        """Start another worker, with a temporary folder of its own: workers that share one take turns on a device."""
        from distributed import Client

        place = self.folder / f"temporary-{len(self.processes)}"
        place.mkdir()
        arguments = (self.address, "--no-nanny", "--nthreads", "1", "--resources", "GPU=1", *options)
        process = self.start("worker", *arguments, folder=folder, TMPDIR=str(place))
        with Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(len(self.processes) - 1, timeout=LIMIT_S)
        return process

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


EXPECTED = sorted((n, session, *item) for n in ("16", "24", "32") for session in "01" for item in STATUSES.items())


def rows_in(path: Path) -> list[tuple[str, ...]]:
    return sorted((row["N"], row["session"], row["provider"], row["status"]) for row in rows_of(path))


def sizes_in(path: Path) -> list[str]:
    return [row["N"] for row in rows_of(path)]


def end_of(process: subprocess.Popen[str]) -> Ended:
    out, err = process.communicate(timeout=LIMIT_S)
    return Ended(process.returncode, out, err)


@pytest.fixture
def cluster(made_once: MadeOnce) -> Path:
    """A run whose first worker hangs in the second case and is then killed, and a run whose scheduler is killed."""

    def make(folder: Path) -> None:
        (folder / "sweep.yaml").write_text(CONFIG)
        (folder / "kernels.py").write_text(PLUGIN)
        dask = Cluster(folder)
        try:
            (folder / "address").write_text(dask.address)
            first_worker = dask.add_worker()
            (folder / "hold-24").touch()
            scheduled = (*RUN, "--scheduler", dask.address)
            run = start(*scheduled, "--sessions", 2, folder=folder)
            wait_for((folder / "held").exists)
            (folder / "other").mkdir()
            (folder / "other" / "kernels.py").write_text(f"{PLUGIN}# faster\n")
            dask.add_worker("--name", "other", folder=folder / "other")
            wait_for(lambda: "differs there" in (folder / "dask.log").read_text())  # before a better worker is there
            dask.add_worker()
            wait_for(lambda: "32" in sizes_in(folder / "results" / "sweep.csv"))
            first_worker.kill()
            (folder / "hold-24").unlink()
            keep(end_of(run), folder, "ran")

            (folder / "held").unlink()
            (folder / "hold-24").touch()
            run = start(*scheduled, "--out", "half", folder=folder)
            wait_for((folder / "held").exists)
            dask.scheduler.kill()
            keep(end_of(run), folder, "half")
        finally:
            (folder / "hold-24").unlink(missing_ok=True)
            dask.end()

    return made_once("cluster", make)


def test_a_cluster_gives_the_rows_of_a_plain_run_none_lost_and_none_twice(cluster: Path) -> None:
    """The worker was killed in the middle of a case, and another one took it."""
    assert rows_in(cluster / "results" / "sweep.csv") == EXPECTED
    ended = kept(cluster, "ran")
    assert ended.code == 1 and "Traceback" not in ended.text  # `raises` failed, as in a plain run


def test_a_worker_that_joins_later_measures_cases_that_wait_but_not_with_another_plug_in(cluster: Path) -> None:
    assert list(dict.fromkeys(sizes_in(cluster / "results" / "sweep.csv"))) == ["16", "32", "24"]
    [line] = [line for line in kept(cluster, "ran").err.splitlines() if "differs" in line]
    assert "kernels.py" in line and "tcp://" in line


def test_the_reason_of_a_row_of_a_cluster_has_the_words_and_the_line_of_the_exception(cluster: Path) -> None:
    [line] = [number for number, text in enumerate(PLUGIN.splitlines(), 1) if "raise ValueError" in text]
    for row in providers_of(cluster / "results" / "sweep.csv"):
        if row["provider"] == "raises":
            assert "ValueError: no rows like these" in row["reason"] and f"kernels.py:{line}" in row["reason"]


def test_a_run_whose_scheduler_dies_ends_with_one_line_and_keeps_its_rows(cluster: Path) -> None:
    ended = kept(cluster, "half")
    errors = [line for line in ended.err.splitlines() if line.startswith("error: ")]
    assert ended.code == 3 and "Traceback" not in ended.text
    assert len(errors) == 1 and (cluster / "address").read_text() in errors[0] and "--resume" in errors[0]
    assert set(sizes_in(cluster / "half" / "sweep.csv")) == {"16"}


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--scheduler", "tcp://127.0.0.1:9"), 3, ("tcp://127.0.0.1:9",)),
        (("--scheduler", "banana"), 2, ("banana", "tcp://")),
        (("--devices", "all", "--scheduler", "tcp://127.0.0.1:9"), 2, ("--devices", "--scheduler")),
        (("--devices", "0,2"), 2, ("--devices 0,2", "accelerator")),
        (("--spread",), 2, ("--spread", "--devices")),
    ],
    ids=["no answer", "no address", "both options", "no accelerator", "one device"],
)
def test_devices_that_cannot_be_had_are_named(
    kbench: Kbench, write: Write, options: tuple[str, ...], code: int, words: tuple[str, ...]
) -> None:
    import torch

    if words[-1] == "accelerator" and torch.accelerator.is_available():
        pytest.skip("there is an accelerator")
    write("sweep.yaml", CONFIG)
    write("kernels.py", PLUGIN)
    ended = kbench(*RUN, *options)
    assert ended.code == code and all(word in ended.err for word in words) and "Traceback" not in ended.err


def test_without_dask_the_error_says_what_to_install(kbench_process: Kbench, write: Write, folder: Path) -> None:
    write("sweep.yaml", CONFIG)
    write("kernels.py", PLUGIN)
    write("hidden/distributed.py", "raise ImportError('hidden by the test')")
    path = os.pathsep.join([str(folder / "hidden"), os.environ["PYTHONPATH"]])
    ended = kbench_process(*RUN, "--scheduler", "tcp://127.0.0.1:9", PYTHONPATH=path)
    assert ended.code in (2, 3) and "pip install" in ended.err and "distributed" in ended.err


@pytest.mark.gpu
def test_all_devices_of_a_host_give_the_rows_of_a_plain_run(kbench: Kbench, write: Write, folder: Path) -> None:
    import torch

    write("sweep.yaml", CONFIG)
    write("kernels.py", PLUGIN)
    ended = kbench(*RUN, "--devices", "all", "--sessions", 2)
    results = folder / "results" / "sweep.csv"
    assert ended.code == 1 and rows_in(results) == EXPECTED
    devices = {(row["N"], row["device_index"], row["device_uuid"]) for row in rows_of(results)}
    assert len(devices) == 3  # all rows of a case are of one device
    assert all(0 <= int(index) < torch.accelerator.device_count() and uuid for _, index, uuid in devices)
