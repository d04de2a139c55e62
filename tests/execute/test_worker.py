"""A worker process may do anything. Only the provider that runs there loses its row, in limited time. No process is left."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stand_in import HONEST, Silent, command, task

from kbench.errors import DeviceGone, ExecutionError, WorkerLost
from kbench.execute.executors.devices import Devices
from kbench.execute.supervision.supervisor import WorkerSupervisor
from kbench.execute.worker import launch, worker_process
from kbench.execute.worker.starting import PluginFiles, start
from kbench.execute.worker.worker_process import NONSENSE, Worker
from kbench.protocol import CatalogRequest
from kbench.results.row import Row
from kbench.results.vocabulary import Status

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the stand-ins use POSIX")

StandIn = Callable[..., None]


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """Make every worker a stand-in (see stand_in.py), with short limits."""
    for name, seconds in {
        "POLL_S": 0.05,
        "STOPPED_LIMIT_S": 0.2,
        "DEATH_LIMIT_S": 0.3,
        "SILENCE_LIMIT_S": 20.0,
    }.items():
        monkeypatch.setattr(worker_process, name, seconds)

    def use(measure: str = "pass", start: str = "pass") -> None:
        monkeypatch.setattr(launch, "COMMAND", command(measure, start))
        monkeypatch.setattr(launch, "TEMPLATE_COMMAND", None)

    return use


def measured(*providers: str, listener: Silent | None = None) -> dict[str, Row]:
    listener = listener or Silent()
    with WorkerSupervisor(PluginFiles(()), listener.note) as supervisor:
        return {row.provider: row for row in supervisor.measure(task(*providers), listener).rows}


CULPRIT = """
for number, name in enumerate(names()):
    begin(number, limit_s=LIMIT)
    if name == "culprit":
        DEED
    say("StepEnded", index=number)
say("Rows", rows=rows())
"""

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


NONSENSES = {
    "null": "raw('null\\n')",
    "a list": "raw('[]\\n')",
    "a number": "raw('7\\n')",
    "an object": "raw('{}\\n')",
    "a message without the secret": 'raw(\'{"type": "RequestDone"}\\n\')',
    "bytes": "raw(bytes(range(128, 256)) * 99 + b'\\n')",
    "a line without an end": "raw(b'0' * (1 << 26))",
    "deep nesting": "raw(secret + ' ' + '[' * 100000 + '\\n')",
    "a number of 400 digits": "say('StepEnded', index=10**400)",
    "a number of 100000 digits": "raw(secret + ' {\"type\": \"StepEnded\", \"index\": ' + '1' * 100000 + '}\\n')",
    "no kind": "say('nonsense')",
    "a kind that is no text": "say([])",
    "missing fields": "say('StepBegun', index=1)",
    "words for numbers": "say('StepBegun', index='one', name='culprit', step='build', limit_s=20)",
    "a step that is none": "say('StepBegun', index=1, name='culprit', step='nonsense', limit_s=20)",
    "a limit without end": "say('StepBegun', index=1, name='culprit', step='build', limit_s=1e300)",
    "a limit that is no number": "say('StepBegun', index=1, name='culprit', step='build', limit_s=float('nan'))",
    "a loss that is none": "say('DeviceFailed', status='nonsense', reason='')",
    "rows that are none": "say('Rows', rows=[1, 2, 3])",
}


@pytest.mark.parametrize("nonsense", NONSENSES)
def test_nonsense_in_the_pipe_costs_its_own_row(nonsense: str, stand_in: StandIn) -> None:
    stand_in(CULPRIT.replace("LIMIT", "20").replace("DEED", NONSENSES[nonsense] + "; time.sleep(60)"))
    rows = measured("culprit", "behind")
    assert (rows["culprit"].status, rows["behind"].status) == (Status.CRASHED, Status.OK)
    assert rows["culprit"].reason == f"{NONSENSE} while building"


FORGED = {
    "none": "say('Rows', rows=[])",
    "of another provider": "say('Rows', rows=[row('other')])",
    "twice": "say('Rows', rows=rows() + rows())",
    "in two messages": "say('Rows', rows=rows()); say('Rows', rows=rows())",
    "of another case": "say('Rows', rows=[row(name, case=request['case'] | {'axes': {'M': 1, 'N': 1}}) for name in names()])",
    "of another session": "say('Rows', rows=[row(name, session=7) for name in names()])",
    "a control of another name": "say('Rows', rows=rows(row('fast', role='control')))",
    "a control twice": "say('Rows', rows=rows(row('copy', role='control'), row('copy', role='control')))",
    "without a message": "pass",
}


@pytest.mark.parametrize("forged", FORGED)
def test_rows_that_were_not_asked_for_are_refused(forged: str, stand_in: StandIn) -> None:
    stand_in(f"begin(); say('StepEnded', index=0)\n{FORGED[forged]}")
    rows = measured("mine")
    assert list(rows) == ["mine"]
    assert rows["mine"].status is Status.CRASHED and NONSENSE in rows["mine"].reason


BAD_ROWS = ["ms='1'", "ms=float('nan')", "ms=float('inf')", "ms=-1.0", "ms=None", "round_ms=[None]", "role='nobody'"]
BAD_ROWS += ["reason=7", "samples=10**30", "gbps=10**400", "status='fast'", "case=[]", "unknown=1", "flags='abc'"]


@pytest.mark.parametrize("field", BAD_ROWS)
def test_rows_of_other_types_are_refused(field: str, stand_in: StandIn) -> None:
    stand_in(f"begin(); say('StepEnded', index=0)\nsay('Rows', rows=[row('mine', **dict({field}))])")
    row = measured("mine")["mine"]
    assert row.status is Status.CRASHED and NONSENSE in row.reason


def test_a_reason_is_one_line_of_bounded_length(stand_in: StandIn) -> None:
    stand_in("say('Rows', rows=[row('mine', status='error', ms=None, round_ms=[], reason='\\x1b[2J\\n' * 100000)])")
    reason = measured("mine")["mine"].reason
    assert len(reason) < 3000 and reason.isprintable()


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


def test_what_python_prints_at_its_start_does_no_harm(stand_in: StandIn) -> None:
    stand_in(HONEST, start="raw('conda is activated\\n\\n')")
    assert measured("mine")["mine"].status is Status.OK


# -- plug-ins

PLUGIN_DEEDS = {
    "exits": ("os._exit(1)", "the process exited with code 1"),
    "segfaults": ("os.kill(os.getpid(), signal.SIGSEGV)", "killed by SIGSEGV"),
    "hangs": ("time.sleep(60)", "took longer than 0.5 s"),
    "closes the pipe": ("os.closerange(0, 256); time.sleep(60)", "the process closed the pipe to kbench"),
    "prints into the pipe": ("raw('hello\\n'); time.sleep(60)", NONSENSE),
}


@pytest.mark.parametrize("deed", PLUGIN_DEEDS)
@pytest.mark.parametrize("provider", ["", "esc"])
def test_a_plugin_that_takes_the_worker_down_is_left_out(
    deed: str, provider: str, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    does, reason = PLUGIN_DEEDS[deed]
    monkeypatch.setattr(worker_process, "PLUGIN_LIMIT_S", 0.5 if deed == "hangs" else 20)
    stand_in(start=f"if loading('theirs (theirs)', {provider!r}): {does}")
    plugins = PluginFiles(())
    with start(plugins) as started:
        (failure,) = started.catalog.plugin_errors
        assert (failure.plugin, failure.where) == ("theirs (theirs)", provider)
        assert reason in failure.message
        assert ("in its availability check" if provider else "while the plug-in was imported") in failure.message
    with start(plugins) as again:  # the next worker does not try it again
        assert len(again.catalog.plugin_errors) == 1


def test_plugins_that_take_down_every_worker_end_it(stand_in: StandIn) -> None:
    stand_in(start="say('PluginCall', plugin='theirs', operator='', provider=''); os._exit(1)")
    with pytest.raises(WorkerLost, match="exited with code 1 while the plug-in was imported"):
        start(PluginFiles(()))


def test_a_plugin_that_the_user_names_ends_it(stand_in: StandIn) -> None:
    stand_in(start="say('PluginCall', plugin='mine.py', operator='', provider=''); os._exit(1)")
    with pytest.raises(
        WorkerLost, match=r"plug-in mine\.py: the process exited with code 1 while the plug-in was imported"
    ):
        start(PluginFiles(("mine.py",)))


# -- several devices

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
            with pytest.raises(
                ExecutionError, match=r"Too many open files; no device is left .* continue with --resume"
            ):
                list(executor.run(todo, {}, listener))
            return
        found = [finished.rows[0].provider for finished in executor.run(todo, {}, listener)]
    finally:
        executor.stop()
    assert sorted(found) == [f"provider-{number}" for number in range(6)]
    # a device that has got no case before the others were done says nothing
    assert all("Too many open files; its case " in note for note in listener.notes)
