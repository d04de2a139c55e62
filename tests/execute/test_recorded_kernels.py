"""What a worker says of the kernels of a call reaches the results, and costs no row if it goes wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from common import Kbench
from fake_executor import FakeMachine
from stand_in import Silent, StandIn, task

from kbench.execute.executor import Finished
from kbench.execute.supervisor import WorkerSupervisor
from kbench.launches.kernels_file import kernels_path
from kbench.launches.launched_call import DeviceLimits, Kernel, KernelLaunch, LaunchedCall
from kbench.protocol import CallRecorded, CatalogRequest
from kbench.results.reader import read_results

RECORDS = """
LIMITS = dict.fromkeys(["multiprocessors", "threads", "registers", "shared_bytes", "blocks", "reserved_shared_bytes"], 1)
kernel = {"registers": 32, "local_bytes": 0, "static_shared_bytes": 0}
kernel |= dict.fromkeys(["name", "symbol", "code", "origin"], "k")
for number, name in enumerate(names()):
    begin(number, "check")
    say("StepEnded", index=number)
for number, name in enumerate(names()):
    if request["settings"]["kernels"]:
        begin(number, "record", limit_s=0.3 if name == "hangs" else 20)
        if name == "dies":
            os.kill(os.getpid(), signal.SIGSEGV)
        if name == "hangs":
            time.sleep(60)
        say("StepEnded", index=number)
        grid = {"grid": [number + 1, 1, 1], "block": [32, 1, 1], "dynamic_shared_bytes": 0, "blocks_per_sm": None, "times": 1}
        say("CallRecorded", launched={"launches": [{"kernel": kernel} | grid], "memory": []}, limits=LIMITS)
say("Rows", rows=rows())
"""

Measure = Callable[..., tuple[Finished, list[str]]]


@pytest.fixture
def measure(stand_in: StandIn) -> Iterator[Measure]:
    stand_in(RECORDS)
    listener = Silent()
    supervisor = WorkerSupervisor(CatalogRequest(()), listener.note)
    yield lambda *providers: (supervisor.measure(task(*providers), listener), listener.notes)
    supervisor.stop()


def test_the_calls_of_a_case_come_with_its_rows(measure: Measure) -> None:
    finished, _ = measure("a", "b")
    assert [call.launched.launches[0].grid for call in finished.calls] == [(1, 1, 1), (2, 1, 1)]
    again, _ = measure("c")
    assert len(again.calls) == 1, "those of the case before do not come again"


@pytest.mark.parametrize(("name", "fault"), [("dies", "killed by SIGSEGV"), ("hangs", "took longer than 0.3 s")])
def test_a_provider_that_fails_only_while_kbench_records_it_keeps_its_row(
    measure: Measure, name: str, fault: str
) -> None:
    finished, notes = measure("a", name)
    assert [(row.provider, row.status.value) for row in finished.rows] == [("a", "ok"), (name, "ok")]
    again = "measuring the case again without recording which kernels a call launches"
    assert notes == [f"softmax M=8 N=64 float32: {name}: {fault} while recording its kernels; {again}"]


# -- whole runs


LIMITS_OF_A_CARD = DeviceLimits(132, 2048, 65536, 233472, 32, 1024)
CONFIG = "operator: softmax\nsweep: {M: 16, N: [64, 100]}\nproviders: [torch-native, triton]\n"


def recorded(code: str) -> CallRecorded:
    launch = KernelLaunch(Kernel("rows", "rows", 32, 0, 0, code, "machine code"), (16, 1, 1), (64, 1, 1), 0, 32)
    return CallRecorded(LaunchedCall((launch,)), LIMITS_OF_A_CARD)


def known(csv: Path) -> tuple[set[str], list[str]]:
    """The codes of the rows, and the names of the calls in the file beside the CSV, in its order."""
    codes = {row.code for row in read_results(csv).rows} - {""}
    lines = [json.loads(line) for line in kernels_path(csv).read_text().splitlines()]
    return codes, [line["call"] for line in lines if "call" in line]


def test_every_code_of_a_run_that_is_continued_is_in_the_file_once(
    kbench: Kbench, fake_machine: FakeMachine, write_config: Callable[[str], Path], tmp_path: Path
) -> None:
    first, other = recorded("first"), recorded("other")
    fake_machine.launched = {"torch-native": first, "triton": other}
    run = ["run", write_config(CONFIG), "--out", tmp_path / "out", "--no-plot"]
    csv = tmp_path / "out" / "sweep.csv"

    assert kbench(*run).returncode == 0
    assert known(csv) == ({first.launched.code, other.launched.code}, [first.launched.code, other.launched.code])
    assert "sweep.kernels.jsonl" in {path.name for path in csv.parent.iterdir()}

    fake_machine.launched["triton"] = third = recorded("tuned differently in the next session")
    assert kbench(*run, "--append", "--sessions", 1).returncode == 0
    every = [each.launched.code for each in (first, other, third)]
    assert known(csv) == (set(every), every)

    lines = csv.read_text().splitlines(keepends=True)
    csv.write_text("".join(lines[:-3]))  # a run that was killed in its last case
    assert kbench(*run, "--resume").returncode == 0
    assert known(csv) == (set(every), every)

    fake_machine.launched = {}
    assert kbench(*run).returncode == 0, "a new file"
    assert not kernels_path(csv).exists(), "the former one has moved with its CSV"
    aside = next(path for path in csv.parent.glob("sweep.2*.csv"))
    assert known(aside) == (set(every), every)
