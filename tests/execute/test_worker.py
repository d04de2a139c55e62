"""A worker process may do anything. Only the provider that runs there loses its row, in limited time. No process is left."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from stand_in import CULPRIT, HONEST, Silent, StandIn, measured, task

from kbench.errors import DeviceGone, ExecutionError, WorkerLost
from kbench.execute.executors.devices import Devices
from kbench.execute.supervision.supervisor import WorkerSupervisor
from kbench.execute.worker import worker_process
from kbench.execute.worker.starting import PluginFiles
from kbench.execute.worker.worker_process import Worker
from kbench.protocol import CatalogRequest
from kbench.results.case import Case
from kbench.results.vocabulary import Status

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the stand-ins use POSIX")

DEEDS = {
    "closes its descriptors": ("os.closerange(0, 256); time.sleep(60)", Status.CRASHED, "closed the pipe to kbench"),
    "stops itself": ("os.kill(os.getpid(), signal.SIGSTOP)", Status.CRASHED, "was stopped (as by SIGSTOP)"),
    "hangs": ("time.sleep(60)", Status.TIMEOUT, "took longer than 1 s while building"),
    "exits": ("os._exit(5)", Status.CRASHED, "the process exited with code 5 while building"),
    "ends while its child holds the pipe": (
        "os.fork() or time.sleep(60); os._exit(5)",
        Status.CRASHED,
        "the process exited with code 5 while building",
    ),
    "segfaults": ("os.kill(os.getpid(), signal.SIGSEGV)", Status.CRASHED, "killed by SIGSEGV while building"),
}


@pytest.mark.slow
@pytest.mark.parametrize("deed", DEEDS)
def test_it_costs_its_own_row(deed: str, stand_in: StandIn) -> None:
    does, status, reason = DEEDS[deed]
    stand_in(CULPRIT.replace("LIMIT", "1" if deed == "hangs" else "20").replace("DEED", does))
    rows = measured("before", "culprit", "behind")
    assert {name: row.status for name, row in rows.items()} == {
        "before": Status.OK,
        "culprit": status,
        "behind": Status.OK,
    }
    assert reason in rows["culprit"].reason


# -- who is to blame

AT_THE_NEIGHBOURS_TURN = """
for number, name in enumerate(names()):
    begin(number)
    say("StepEnded", index=number)
for number, name in enumerate(names()):
    begin(number, "time")
    if "culprit" in names() and (name != "culprit" or len(names()) == 1):
        os._exit(5)
    say("StepEnded", index=number)
say("Rows", rows=rows())
"""

BETWEEN_STEPS = """
for number, name in enumerate(names()):
    begin(number)
    say("StepEnded", index=number)
if "culprit" in names():
    os._exit(5)
say("Rows", rows=rows())
"""


@pytest.mark.parametrize("script", [AT_THE_NEIGHBOURS_TURN, BETWEEN_STEPS])
def test_the_neighbours_of_one_that_ends_the_worker_are_measured_again(script: str, stand_in: StandIn) -> None:
    stand_in(script)
    rows = measured("first", "culprit", "last")
    assert rows["culprit"].status is Status.CRASHED and "exited with code 5" in rows["culprit"].reason
    assert rows["first"].status is rows["last"].status is Status.OK


def test_a_worker_that_nobody_ends_alone_costs_whose_turn_it_was(stand_in: StandIn) -> None:
    stand_in(
        AT_THE_NEIGHBOURS_TURN.replace(
            '"culprit" in names() and (name != "culprit" or len(names()) == 1)', "names()[1:]"
        )
    )
    rows = measured("one", "two")
    assert sorted(row.status.value for row in rows.values()) == ["crashed", "ok"]


@pytest.mark.parametrize("ends", ["os.kill(os.getpid(), signal.SIGKILL)", "os._exit(5)"])
def test_a_worker_that_ends_once_between_steps_costs_nobody_a_row(ends: str, stand_in: StandIn, tmp_path: Path) -> None:
    struck = tmp_path / "struck"
    stand_in(f"""
for number, name in enumerate(names()):
    begin(number)
    say("StepEnded", index=number)
if len(names()) == 2 and not os.path.exists({str(struck)!r}):
    open({str(struck)!r}, "w").close()
    {ends}
say("Rows", rows=rows())
""")
    assert {row.status for row in measured("one", "two").values()} == {Status.OK}
    assert struck.exists()


# -- nothing is left, nothing is waited for

CHILD = "import time; time.sleep(60)"
LEAVES = {
    "a child": "subprocess.Popen([sys.executable, '-S', '-c', CHILD])",
    "a child in a session of its own": "subprocess.Popen([sys.executable, '-S', '-c', CHILD], start_new_session=True)",
    "a child without its environment": "subprocess.Popen([sys.executable, '-S', '-c', CHILD], env={}, start_new_session=True)",
    "a daemon": "os.fork() or (os.setsid(), os.fork() and os._exit(0), time.sleep(60))",
}


def started_by(marker: Path) -> list[str]:
    """Command lines of the processes that work in this folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink() == marker:
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue  # it ended while we looked
    return found


@pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="processes that leave their group are found on Linux"
)
@pytest.mark.parametrize(
    ("leaves", "ends"),
    # nothing tells whose child it was that has no mark, once its parent has ended
    [
        (leaves, ends)
        for leaves in LEAVES
        for ends in ("well", "by itself")
        if "without" not in leaves or ends == "well"
    ],
)
def test_nothing_that_a_provider_starts_is_left(leaves: str, ends: str, stand_in: StandIn, tmp_path: Path) -> None:
    code = f"import subprocess; CHILD = {CHILD!r}; os.chdir({str(tmp_path)!r}); {LEAVES[leaves]}\n"
    stand_in(code + ("time.sleep(0.1); os._exit(5)" if ends == "by itself" else HONEST))
    assert measured("mine")["mine"].status is (Status.OK if ends == "well" else Status.CRASHED)
    deadline = time.monotonic() + 10
    while started_by(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert started_by(tmp_path) == []


def test_a_worker_that_does_not_read_is_not_waited_for(stand_in: StandIn) -> None:
    stand_in(start="say('Catalog', **CATALOG); say('RequestDone'); os.kill(os.getpid(), signal.SIGSTOP)")
    with (
        Worker(CatalogRequest(())) as stopped,
        pytest.raises(WorkerLost, match="was stopped \\(as by SIGSTOP\\) while no provider was running"),
    ):
        list(stopped.ask(CatalogRequest(("more than a pipe holds" * 100_000,))))


def test_a_worker_that_is_stopped_for_a_moment_goes_on(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "STOPPED_LIMIT_S", 20.0)
    stand_in(HONEST)
    with Worker(CatalogRequest(())) as asked:
        os.kill(asked._process.pid, signal.SIGSTOP)
        threading.Timer(0.3, os.kill, (asked._process.pid, signal.SIGCONT)).start()
        assert list(asked.ask(task("mine").measure_request(task("mine").configurations)))


def test_a_flood_on_stderr_is_counted(stand_in: StandIn) -> None:
    listener = Silent()
    notes = r"b''.join(b'kbench: \x1b[2Jnote %d\n' % (i % 100) for i in range(30000))"
    stand_in(f"begin(); os.write(2, {notes}); os.write(2, b'x' * (1 << 26)); os._exit(5)")
    row = measured("mine", listener=listener)["mine"]
    assert row.status is Status.CRASHED and len(row.reason) < 1000
    assert len(listener.notes) < 30 and all(note.isprintable() for note in listener.notes)
    assert "29990 more notes of this worker are not shown" in listener.notes


def test_no_worker_can_be_started(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise OSError(24, "Too many open files")

    stand_in(HONEST)
    monkeypatch.setattr("subprocess.Popen", refuse)
    with pytest.raises(
        DeviceGone, match=r"no worker can be started: no worker process can be started: .*Too many open"
    ):
        measured("mine")


DEVICES = """
number = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
CATALOG["devices"] = [
    {"type": "cpu", "name": "card", "index": int(n), "uuid": f"GPU-{n}", "variables": {"CUDA_VISIBLE_DEVICES": n}}
    for n in "012"
]
CATALOG["device"] |= {"index": int(number), "uuid": f"GPU-{number}"}
"""


@pytest.mark.parametrize("fails", ["12", "012"])
def test_devices_whose_worker_cannot_be_started_are_lost(
    fails: str, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = subprocess.Popen

    def refuse(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        if options["env"].get("CUDA_VISIBLE_DEVICES", "none") in fails:
            raise OSError(24, "Too many open files")
        return started(command, **options)

    monkeypatch.setattr("subprocess.Popen", refuse)
    stand_in(HONEST, DEVICES)
    listener = Silent()
    todo = [task(f"provider-{number}") for number in range(6)]
    executor = Devices(PluginFiles(()), listener.note, "all", spread=False)
    try:
        executor.start()
        if fails == "012":
            with pytest.raises(ExecutionError, match=r"^6 of 6 cases .*Too many open files; continue with --resume"):
                list(executor.run(todo, {}, listener))
            return
        found = [finished.rows[0].provider for finished in executor.run(todo, {}, listener)]
    finally:
        executor.stop()
    assert sorted(found) == [f"provider-{number}" for number in range(6)]
    assert all("Too many open files; it gets no more cases" in note for note in listener.notes)


@pytest.mark.slow
def test_nobody_is_measured_before_a_killed_worker_has_ended(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel may keep its process alive for a while. Also in the second case, where the culprit is tried alone first."""
    said: list[str] = []
    waits, asks = Worker.wait_for_end, Worker.ask

    def wait(worker: Worker, stopped: Callable[[], bool]) -> None:
        said.append(f"{worker._process.pid} ends")
        waits(worker, stopped)

    def ask(worker: Worker, request: Any, limit_s: float = 20.0) -> Iterator[Any]:
        names = [one.provider for one in getattr(request, "configurations", ())]
        if names:
            said.append(f"{worker._process.pid} {'+'.join(names)}")
        return asks(worker, request, limit_s)

    monkeypatch.setattr(Worker, "wait_for_end", wait)
    monkeypatch.setattr(Worker, "ask", ask)
    stand_in(CULPRIT.replace("LIMIT", "0.5").replace("DEED", "time.sleep(60)"))
    listener, first = Silent(), task("culprit", "behind")
    with WorkerSupervisor(PluginFiles(()), listener.note) as supervisor:
        for each in (first, replace(first, case=Case("softmax", {"M": 8, "N": 65}, "float32"))):
            rows = {row.provider: row.status for row in supervisor.measure(each, listener).rows}
            assert rows == {"culprit": Status.TIMEOUT, "behind": Status.OK}
    lost = [line.split()[0] for line in said if "culprit" in line]
    assert len(lost) == 2
    for pid in lost:
        asked, ended = (
            next(i for i, line in enumerate(said) if line.startswith(f"{pid} {what}")) for what in ("culprit", "ends")
        )
        assert said[ended + 1].split()[1] in ("behind", "ends"), said
        assert not any("behind" in line for line in said[asked + 1 : ended]), said


def test_a_run_that_is_stopped_while_it_waits_starts_no_worker(stand_in: StandIn) -> None:
    stand_in(HONEST)
    supervisor = WorkerSupervisor(PluginFiles(()), lambda line: None)
    supervisor.start()
    last, supervisor._worker = supervisor._worker, None
    assert last
    last.stop()
    last.wait_for_end = lambda stopped: stopped() or supervisor.stop()  # type: ignore[method-assign]
    with pytest.raises(DeviceGone, match="stopped"):
        supervisor.start()
    assert supervisor._worker is None
