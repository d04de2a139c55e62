"""Dask workers that do not answer or do not fit the plan, simulated by a stand-in for dask's client."""

from __future__ import annotations

import itertools
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_executor import machine_info
from stand_in import Silent, task

from kbench.errors import ExecutionError
from kbench.execute.executor import Finished
from kbench.execute.plan import Task
from kbench.protocol import Catalog, DeviceInfo

pytest.importorskip("distributed")

from kbench.execute.executors import cluster, cluster_members, cluster_worker

CATALOG = Catalog(DeviceInfo("cpu", "host"), (), {}, (), machine_info())


def finished(task: Task, worker: str) -> Finished:
    return Finished(task, [], CATALOG.device, CATALOG.machine, worker)


TASKS = [task(f"provider-{number}") for number in range(6)]


class Future:
    def __init__(self, key: str, result: Callable[[], Any] | None) -> None:
        self.key, self.status, self.result = key, "finished" if result else "pending", result

    def done(self) -> bool:
        return self.status != "pending"

    def add_done_callback(self, tell: Callable[[Future], None]) -> None:
        self.tell = tell
        if self.done():
            tell(self)


class Client:
    """A scheduler with some workers. Workers in `stopped` take tasks and never answer. Those in `changed` have other code than
    the run, and those in `broken` have lost their device."""

    status = "running"

    def __init__(self, *workers: str) -> None:
        self.workers, self.dead = list(workers), False
        self.stopped, self.changed, self.broken, self.admitted = set[str](), set[str](), set[str](), set[str]()
        self.held: dict[str, dict[str, Future]] = {worker: {} for worker in workers}
        self.turn = itertools.cycle(workers)

    def nthreads(self) -> dict[str, int]:
        if self.dead:
            time.sleep(60)
        return dict.fromkeys(self.workers, 1)

    def scheduler_info(self, n_workers: int) -> Any:
        clock = time.monotonic()
        return {"workers": {w: {"last_seen": 0.0 if w in self.stopped else clock} for w in self.workers}}

    def run(self, function: Any, *arguments: Any, workers: list[str], **options: Any) -> Any:
        if self.stopped & set(workers):
            time.sleep(60)
        if function is cluster_worker.register:
            self.admitted.update(workers)  # they have the resource that tasks ask for
        if function is cluster_worker.release:
            self.admitted.difference_update(workers)
        return {worker: cluster_worker.Registration([], []) for worker in workers}

    def map(self, function: Any, tickets: Any, *arguments: Any, key: list[str], workers: Any, **options: Any) -> Any:
        return [self.submitted(function, k, job, workers) for k, job in zip(key, *(arguments or [key]), strict=True)]

    def submitted(self, function: Any, key: str, job: Any, only: Any) -> Future:
        worker = next(one for one in self.turn if one in self.admitted and (not only or one in only))
        if worker in self.stopped:
            self.held[worker][key] = future = Future(key, None)
            return future
        if function is cluster_worker.report_catalog:
            return Future(key, lambda: (worker, CATALOG, ""))
        result = cluster_worker.JobResult(worker, [finished(one, worker) for one in pickle.loads(job)])
        if worker in self.changed | self.broken:
            reason = "its code differs" if worker in self.changed else "it fell off the bus"
            result = cluster_worker.JobResult(worker, gone=reason, fits=worker not in self.changed)
        return Future(key, lambda: result)

    def processing(self, workers: list[str]) -> dict[str, list[str]]:
        return {worker: list(self.held[worker]) for worker in workers}

    def cancel(self, futures: list[Future]) -> None:
        for future in futures:
            future.status = "cancelled"
            future.tell(future)

    def gather(self, futures: list[Future]) -> list[Any]:
        return [future.result() for future in futures if future.result]

    def close(self, timeout: float) -> None:
        return None


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Client], cluster.Cluster]:
    """Make a cluster with a client and short limits."""
    limits = {
        "WORKER_SEARCH_S": 0.02,
        "PULSE_S": 0.05,
        "SILENT_LIMIT_S": 0.3,
        "ANSWER_LIMIT_S": 0.5,
        "CLOSE_LIMIT_S": 0.1,
    }
    for name, seconds in (limits | {"ALONE_LIMIT_S": 0.5, "FIRST_LIMIT_S": 0.6}).items():
        for module in (cluster, cluster_members):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, seconds)
    monkeypatch.setattr(cluster_members, "identify_code", lambda files: {})
    config: Any = SimpleNamespace(path=tmp_path / "sweep.yaml", plugins=())
    config.path.touch()

    def connected(client: Client) -> cluster.Cluster:
        monkeypatch.setattr(cluster, "connect", lambda address: client)
        notes.notes = []
        return cluster.Cluster("tcp://scheduler:8786", config, notes.note, spread=False)

    return connected


notes = Silent()


def measured(executor: cluster.Cluster) -> list[str]:
    return sorted(finished.task.configurations[0].provider for finished in executor.run(TASKS, {}, notes))


WANTED = sorted(one.configurations[0].provider for one in TASKS)


@pytest.mark.slow
def test_a_scheduler_to_which_no_worker_comes_is_not_waited_for_without_end(connected: Any) -> None:
    with pytest.raises(ExecutionError, match=r"no worker appeared within 0\.01 min; start one"):
        connected(Client())


def test_a_worker_that_does_not_answer_at_the_start_gets_no_case(connected: Any) -> None:
    client = Client("tcp://a", "tcp://b")
    client.stopped.add("tcp://b")
    assert measured(connected(client)) == WANTED
    assert "b is refused: no answer within 0.5 s" in notes.notes


def test_cases_of_a_worker_that_falls_silent_are_measured_elsewhere(connected: Any) -> None:
    client = Client("tcp://a", "tcp://b")
    executor = connected(client)
    client.stopped.add("tcp://b")
    assert measured(executor) == WANTED
    assert "b has not reported for 0.3 s; if it was measuring a case, the case goes to another worker" in notes.notes
    assert not any(future.status == "pending" for future in client.held["tcp://b"].values())


def test_workers_that_do_not_fit_the_plan_are_no_lost_devices(connected: Any) -> None:
    client = Client("tcp://a", "tcp://b", "tcp://c")
    executor = connected(client)
    client.changed |= {"tcp://b", "tcp://c"}  # a comes last: its turn was the catalog
    found = list(executor.run(TASKS[:1], {}, notes))
    assert [(one.task, one.place) for one in found] == [(TASKS[0], "tcp://a")]
    assert [line for line in notes.notes if "differs" in line] == [
        f"{name} gets no more cases: its code differs" for name in "bc"
    ]


def test_a_case_under_which_two_devices_are_lost_is_given_up(connected: Any) -> None:
    client = Client("tcp://a", "tcp://b", "tcp://c")
    executor = connected(client)
    client.broken |= {"tcp://b", "tcp://c"}
    ((reason,),) = ([row.reason for row in one.rows] for one in executor.run(TASKS[:1], {}, notes))
    assert reason == "2 devices were lost while they measured this case; the last error: it fell off the bus"


@pytest.mark.slow
def test_a_run_ends_when_every_worker_is_silent(connected: Any) -> None:
    client = Client("tcp://a", "tcp://b")
    executor = connected(client)
    client.stopped |= {"tcp://a", "tcp://b"}
    with pytest.raises(
        ExecutionError, match=r"the run has had no worker for 0\.5 s; start some and continue with --resume"
    ):
        measured(executor)


@pytest.mark.slow
def test_a_run_ends_when_the_scheduler_does_not_answer(connected: Any) -> None:
    client = Client("tcp://a")
    executor = connected(client)
    client.stopped.add("tcp://a")
    client.dead = True
    with pytest.raises(ExecutionError, match="the scheduler does not answer; start it again or choose another"):
        measured(executor)
    executor.stop()
