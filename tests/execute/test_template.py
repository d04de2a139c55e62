"""Workers that are forked from a template: each is a process of its own, and a template that fails costs time only.

The templates import a stand-in for the worker's work, which answers like that of stand_in.py, instead of torch.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from fake_executor import machine_info
from stand_in import HONEST, Silent, command, task

from kbench.execute.supervision.supervisor import WorkerSupervisor
from kbench.execute.worker import launch, template
from kbench.execute.worker.process_tree import MARK
from kbench.execute.worker.starting import PluginFiles
from kbench.execute.worker.template import Template, start_template
from kbench.execute.worker.worker_process import Worker
from kbench.protocol import CatalogRequest
from kbench.results.vocabulary import Status

pytestmark = pytest.mark.skipif(launch.TEMPLATE_COMMAND is None, reason="this system has no templates")

BOOT = """
import json, os, sys, time, types
def serve(requests, pipe):
    secret, _, _ = requests.get().decode().partition(" ")
    catalog = CATALOG | {"device": CATALOG["device"] | {"uuid": os.environ["KBENCH_WORKER"]}}
    for message in ({"type": "Catalog"} | catalog, {"type": "RequestDone"}):
        os.write(pipe, f"{secret} {json.dumps(message)}\\n".encode())
    requests.get()
    DEED
module = sys.modules["kbench.measure.serving"] = types.ModuleType("serving")
module.serve = serve
IMPORT
from kbench.measure.__main__ import template
template()
"""

CATALOG = {
    "device": {"type": "cpu", "name": "stand-in", "index": None, "uuid": ""},
    "devices": [],
    "operators": {},
    "plugin_errors": [],
    "machine": asdict(machine_info("stand-in")),
}

Begin = Callable[..., Template]


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Start a template. `deed` is what a worker does with its second request, `importing` runs before the first fork."""
    started: list[Template] = []

    def begin(deed: str = "os._exit(7)", importing: str = "") -> Template:
        source = BOOT.replace("CATALOG", repr(CATALOG)).replace("DEED", deed).replace("IMPORT", importing)
        started.append(Template([sys.executable, "-S", "-c", source], {}))
        return started[-1]

    yield begin
    for each in started:
        each.stop()


@pytest.fixture
def spawned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that are not forked are stand-ins, whose device has no UUID."""
    monkeypatch.setattr(launch, "COMMAND", command(HONEST))


def worker(begun: Template) -> Worker:
    return Worker(CatalogRequest(()), template=begun)


@pytest.mark.gpu
def test_a_forked_worker_finds_the_device() -> None:
    """Nothing that kbench imports has opened it before the fork."""
    begun = start_template({})
    assert begun
    with Worker(CatalogRequest(()), template=begun) as forked, Worker(CatalogRequest(())) as started:
        assert forked.catalog.device == started.catalog.device and forked.catalog.device.type != "cpu"
        assert forked.catalog.operators == started.catalog.operators
        assert begun._process.poll() is None, "the template was refused"
    begun.stop()


def test_each_worker_is_a_process_of_its_own(begin: Begin) -> None:
    begun = begin()
    with worker(begun) as one, worker(begun) as two:
        pids = [each._process.pid for each in (one, two)]
        assert [os.getsid(pid) for pid in pids] == pids
        for each, pid in zip((one, two), pids, strict=True):
            mark = each.catalog.device.uuid  # as the worker and what it starts see it
            assert f"{MARK}={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        assert one.catalog.device.uuid != two.catalog.device.uuid
    for pid in pids:
        ends(pid)


@pytest.mark.parametrize(
    ("deed", "reason"), [("os._exit(7)", "exited with code 7"), ("os.kill(os.getpid(), 11)", "killed by SIGSEGV")]
)
def test_it_is_known_how_a_worker_ended(begin: Begin, deed: str, reason: str) -> None:
    with worker(begin(deed)) as asked, pytest.raises(Exception, match=reason):
        list(asked.ask(CatalogRequest(())))


UNUSABLE = {
    "it has opened a device": "os.open('/dev/ptmx', os.O_RDWR)",
    "it has a thread": "import threading; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
    "it ends while it imports": "os._exit(1)",
    "it hangs while it imports": "time.sleep(60)",
}


@pytest.mark.parametrize("why", UNUSABLE)
def test_a_worker_starts_without_a_template_that_cannot_be_used(
    why: str, begin: Begin, spawned: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(template, "IMPORT_LIMIT_S", 0.5 if why == "it hangs while it imports" else 60.0)
    begun = begin(importing=UNUSABLE[why])
    with worker(begun) as started:
        assert started.catalog.device.uuid == ""
        assert begun._process.poll() is not None, "an unusable template takes memory for nothing"


def test_a_killed_template_costs_nobody_a_row(
    begin: Begin, spawned: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begun = begin("os.kill(os.getppid(), 9); time.sleep(60)")
    monkeypatch.setattr("kbench.execute.supervision.supervisor.start_template", lambda variables: begun)
    listener = Silent()
    with WorkerSupervisor(PluginFiles(()), listener.note) as supervisor:
        supervisor.start()
        assert supervisor._worker
        pid = supervisor._worker._process.pid
        (row,) = supervisor.measure(task("mine"), listener).rows
    assert row.status is Status.OK and "trying once more" in listener.notes[0]
    ends(pid)


def ends(pid: int) -> None:
    """Wait for the end of a process. Whoever has inherited it may leave it a zombie."""
    deadline = time.monotonic() + 10
    stat = Path(f"/proc/{pid}/stat")
    while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] not in "ZX":
        assert time.monotonic() < deadline, "the process is still there"
        time.sleep(0.01)


def test_the_workers_of_a_killed_kbench_end(tmp_path: Path) -> None:
    """The template ends with kbench, and the worker with the template: also one that is stuck in C code."""
    told = tmp_path / "pid"
    deed = f"open({str(told)!r}, 'w').write(str(os.getpid())); import ctypes; ctypes.PyDLL(None).sleep(60)"
    source = BOOT.replace("CATALOG", repr(CATALOG)).replace("DEED", deed).replace("IMPORT", "")
    program = (
        "import sys; from kbench.execute.worker.template import Template; "
        "from kbench.execute.worker.worker_process import Worker; from kbench.protocol import CatalogRequest; "
        f"worker = Worker(CatalogRequest(()), template=Template([sys.executable, '-S', '-c', {source!r}], {{}})); "
        "list(worker.ask(CatalogRequest(())))"
    )
    started = subprocess.Popen([sys.executable, "-c", program])
    deadline = time.monotonic() + 60
    while not (told.exists() and told.read_text()):
        assert started.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    started.send_signal(signal.SIGKILL)
    started.wait()
    ends(int(told.read_text()))
