"""What a worker says of the kernels of a call comes with its rows, and costs no row if it goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from stand_in import Silent, StandIn, task

from kbench.execute.executor import Finished
from kbench.execute.supervisor import WorkerSupervisor
from kbench.protocol import CatalogRequest

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


@pytest.mark.parametrize(("name", "fault"), [("dies", "killed by SIGSEGV"), ("hangs", "took longer than 0.3 s")])
def test_a_provider_that_fails_only_while_kbench_records_it_keeps_its_row(
    measure: Measure, name: str, fault: str
) -> None:
    finished, notes = measure("a", name)
    assert [(row.provider, row.status.value) for row in finished.rows] == [("a", "ok"), (name, "ok")]
    again = "measuring the case again without recording which kernels a call launches"
    assert notes == [f"softmax M=8 N=64 float32: {name}: {fault} while recording its kernels; {again}"]
