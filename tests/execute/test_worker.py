"""A worker process may do anything. Only the provider that runs there loses its row, in limited time. No process is left."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from common import ROOT
from stand_in import CULPRIT, HONEST, StandIn, measured, task

from kbench.errors import ConfigError, WorkerLost
from kbench.execute.progress import LiveProgress, PlainProgress
from kbench.execute.spawning import end_unused, spawn, start_ahead, worker_environment
from kbench.execute.supervisor import WorkerSupervisor
from kbench.execute.worker import NONSENSE, Worker
from kbench.protocol import CatalogRequest
from kbench.results.vocabulary import Status
from kbench.text import terminal

DEEDS = {
    "closes its descriptors": ("os.closerange(0, 256); time.sleep(60)", "the process closed the pipe to kbench"),
    "ends while its child holds the pipe": (
        "os.fork() or time.sleep(60); os._exit(5)",
        "the process exited with code 5",
    ),
    "writes without an end": ("raw(b'0' * (1 << 26)); time.sleep(60)", NONSENSE),
}


@pytest.mark.slow
@pytest.mark.parametrize("deed", DEEDS)
def test_it_costs_its_own_row(deed: str, stand_in: StandIn) -> None:
    does, what = DEEDS[deed]
    stand_in(CULPRIT.replace("DEED", does))
    rows = measured("before", "culprit", "behind")
    assert rows["before"].status is rows["behind"].status is Status.OK
    assert rows["culprit"].status is Status.CRASHED
    assert rows["culprit"].reason.startswith(what) and rows["culprit"].reason.endswith(" while building")


BROKEN = {
    "of another type": "say('Rows', rows=[row('mine', ms='1')])",
    "of another provider": "say('Rows', rows=[row('another')])",
    "a time without ok": "say('Rows', rows=[row('mine', status='wrong', reason='no')])",
}


@pytest.mark.parametrize("which", BROKEN)
def test_rows_that_cannot_be_are_refused(which: str, stand_in: StandIn) -> None:
    stand_in(BROKEN[which])
    row = measured("mine")["mine"]
    assert row.status is Status.CRASHED and NONSENSE in row.reason


def test_a_worker_that_ends_once_between_two_steps_costs_nobody_a_row(stand_in: StandIn, tmp_path: Path) -> None:
    struck = tmp_path / "struck"
    once = f"if not os.path.exists({str(struck)!r}):\n    open({str(struck)!r}, 'w').close(); os._exit(5)\n"
    stand_in(once + HONEST)
    assert {row.status for row in measured("one", "two").values()} == {Status.OK} and struck.exists()


def test_a_worker_that_ends_again_between_two_steps_costs_the_case(stand_in: StandIn) -> None:
    stand_in("os._exit(5)")
    reasons = {row.reason for row in measured("one", "two").values()}
    assert reasons == {"the process exited with code 5 while no provider was running"}


def test_a_reference_that_ends_the_worker_in_a_trial_is_the_operators_fault(stand_in: StandIn) -> None:
    stand_in("os._exit(3)")
    says = r"operator softmax: a trial call of its functions on .* failed: the process exited with code 3"
    with WorkerSupervisor(CatalogRequest(())) as supervisor, pytest.raises(ConfigError, match=says):
        supervisor.try_operator(task("mine"))


def test_what_python_prints_at_its_start_does_no_harm(stand_in: StandIn) -> None:
    stand_in(HONEST, start="raw('conda is activated\\n\\n')")
    assert measured("mine")["mine"].status is Status.OK


# -- nothing is left, nothing is waited for

CHILD = "import time; time.sleep(60)"
LEAVES = "subprocess.Popen([sys.executable, '-S', '-c', CHILD], start_new_session=True)"


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


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
def test_nothing_that_a_provider_starts_is_left(stand_in: StandIn, tmp_path: Path) -> None:
    stand_in(f"import subprocess; CHILD = {CHILD!r}; os.chdir({str(tmp_path)!r}); {LEAVES}\n{HONEST}")
    assert measured("mine")["mine"].status is Status.OK
    deadline = time.monotonic() + 10
    while started_by(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert started_by(tmp_path) == []


def test_a_worker_that_does_not_read_is_not_waited_for(stand_in: StandIn) -> None:
    stand_in(start="say('Catalog', **CATALOG); say('RequestDone'); time.sleep(60)")
    worker = Worker(CatalogRequest(()))
    with pytest.raises(WorkerLost, match=r"took longer than 0\.5 s"):
        list(worker.ask(CatalogRequest(("more than a pipe holds" * 100_000,)), limit_s=0.5))


def test_a_flood_on_stderr_does_no_harm(stand_in: StandIn, notes: list[str]) -> None:
    stand_in("begin(); os.write(2, b'kbench: \\x1b[2Jnote\\n' * 9); os.write(2, b'x' * (1 << 26)); os._exit(5)")
    row = measured("mine")["mine"]
    assert row.status is Status.CRASHED and len(row.reason) < 1000
    assert notes == ["\\x1b[2Jnote"], "once"


# -- a configuration that takes the worker down again and again

EXITS = CULPRIT.replace("DEED", "request['case']['axes']['M'] == 99 or os._exit(5)")


def test_it_costs_two_cases_in_a_row_and_a_case_that_it_survives_begins_the_count_anew(stand_in: StandIn) -> None:
    stand_in(EXITS)
    todo = task("neighbour", "culprit")
    with WorkerSupervisor(CatalogRequest(())) as supervisor:
        rows = [
            {row.provider: row for row in supervisor.measure(replace(todo, case=case), PlainProgress(1)).rows}
            for case in (replace(todo.case, axes={"M": M, "N": 64}) for M in (1, 99, 2, 3, 4))
        ]
    assert {row["neighbour"].status for row in rows} == {Status.OK}
    reasons = [" ".join(row["culprit"].reason.split()[:2]) for row in rows]
    assert reasons == ["the process", "", "the process", "the process", "not tried"]


# -- the kernels of a call

RECORDS = """
LIMITS = dict.fromkeys(["multiprocessors", "threads", "registers", "shared_bytes", "blocks", "reserved_shared_bytes"], 1)
kernel = {"registers": 32, "local_bytes": 0, "static_shared_bytes": 0}
kernel |= dict.fromkeys(["name", "symbol", "code", "origin"], "k")
for number, name in enumerate(names()):
    begin(number, "check")
    say("StepEnded")
for number, name in enumerate(names()):
    if request["settings"]["kernels"]:
        begin(number, "record", limit_s=0.3 if name == "hangs" else 20)
        if name == "dies":
            os.kill(os.getpid(), signal.SIGSEGV)
        if name == "hangs":
            time.sleep(60)
        say("StepEnded")
        grid = {"grid": [number + 1, 1, 1], "block": [32, 1, 1], "dynamic_shared_bytes": 0, "blocks_per_sm": None, "times": 1}
        say("CallRecorded", launched={"launches": [{"kernel": kernel} | grid], "memory": []}, limits=LIMITS)
say("Rows", rows=rows())
"""


@pytest.mark.parametrize(("name", "fault"), [("dies", "killed by SIGSEGV"), ("hangs", "took longer than 0.3 s")])
def test_a_provider_that_fails_only_while_kbench_records_it_keeps_its_row(
    stand_in: StandIn, notes: list[str], name: str, fault: str
) -> None:
    stand_in(RECORDS)
    assert [row.status for row in measured("a", name).values()] == [Status.OK, Status.OK]
    again = "measuring the case again without recording which kernels a call launches"
    assert notes == [f"softmax M=8 N=64 float32: {name}: {fault} while recording its kernels; {again}"]


# -- the start


BEGINS = "say('StepBegun', index=-1, step={!r}, name={!r}, limit_s=20); os._exit(3)"


@pytest.mark.parametrize(
    ("step", "name", "sentence"),
    [
        ("import", "plug-in theirs (theirs)", "exited with code 3 while importing it; mend or uninstall it"),
        ("ask", "provider a of plug-in theirs", "while asking whether it is available; mend or uninstall it"),
        ("load", "script.py", "the process exited with code 3 while loading it; mend it"),
    ],
)
def test_a_plug_in_that_ends_the_worker_is_named_with_what_to_do(
    step: str, name: str, sentence: str, stand_in: StandIn
) -> None:
    stand_in(start=BEGINS.format(step, name))
    with pytest.raises(WorkerLost) as caught:
        assert Worker(CatalogRequest(())).catalog
    assert str(caught.value).startswith(f"{name}: ") and str(caught.value).endswith(sentence)


def test_a_worker_that_does_not_start_says_why(stand_in: StandIn) -> None:
    stand_in(start="raise ImportError('no torch')")
    with pytest.raises(WorkerLost, match=r"did not start: the process exited with code 1: ImportError: no torch"):
        assert Worker(CatalogRequest(())).catalog


def test_a_process_that_was_started_ahead_is_a_worker_only_in_the_same_environment(stand_in: StandIn) -> None:
    def children() -> set[int]:
        return {child.pid for child in psutil.Process().children()}

    stand_in()
    before = children()
    start_ahead(2)
    ahead = children() - before
    environment = worker_environment()
    assert str(ROOT) in environment["PYTHONPATH"].split(os.pathsep), "kbench need not be installed"
    workers = [spawn(environment), spawn(environment | {"CUDA_VISIBLE_DEVICES": "1"})]
    assert [worker.pid in ahead for worker in workers] == [True, False]
    end_unused()
    assert children() & ahead == {workers[0].pid}
    for worker in workers:
        worker.kill()


def test_a_note_stands_above_the_progress_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes it for a terminal
    with LiveProgress(1):
        terminal.note("of a worker")
    assert "\x1b[2Kof a worker\n" in capsys.readouterr().err
