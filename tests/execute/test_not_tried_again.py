"""A configuration that takes the worker down again and again costs two cases, and its neighbours nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from stand_in import Silent, StandIn, task

from kbench.execute.supervisor import WorkerSupervisor
from kbench.protocol import CatalogRequest, Task
from kbench.results.row import Row
from kbench.results.vocabulary import Status

BAD = """
open(LOG, "a").write(f"{os.getpid()} {' '.join(names())}\\n")
for number, name in enumerate(names()):
    for step in ("build", "check"):
        begin(number, step, limit_s=0.3 if name.startswith("hangs") else 20)
        if name.startswith("exits") and request["case"]["axes"]["M"] != 99:
            os._exit(5)
        if name.startswith("segfaults"):
            os.kill(os.getpid(), signal.SIGSEGV)
        if name.startswith("hangs"):
            time.sleep(60)
        say("StepEnded", index=number)
say("Rows", rows=rows())
"""


class Bad:
    """A supervisor of stand-ins, whose name says what they do. `requests` are the providers of each request to a worker."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self.listener = Silent()
        self.supervisor = WorkerSupervisor(CatalogRequest(()), self.listener.note)

    def measure(self, todo: Task) -> dict[str, Row]:
        return {row.provider: row for row in self.supervisor.measure(todo, self.listener).rows}

    @property
    def requests(self) -> list[str]:
        return [line.partition(" ")[2] for line in self._log.read_text().splitlines()] if self._log.exists() else []


@pytest.fixture
def bad(stand_in: StandIn, tmp_path: Path) -> Iterator[Bad]:
    log = tmp_path / "requests"
    stand_in(BAD.replace("LOG", repr(str(log))))
    made = Bad(log)
    yield made
    made.supervisor.stop()


def case(number: int, *providers: str, keep_trying: bool = False, session: int = 0) -> Task:
    made = task(*providers)
    axes = {"M": number, "N": 64}
    return replace(made, case=replace(made.case, axes=axes), keep_trying=keep_trying, session=session)


def test_keep_trying_tries_it_in_every_case(bad: Bad) -> None:
    rows = [bad.measure(case(number, "mine", "exits", keep_trying=True)) for number in (1, 2, 3, 4)]
    assert {row["exits"].reason for row in rows} == {"the process exited with code 5 while building"}
    assert {row["mine"].status for row in rows} == {Status.OK}


def test_a_case_that_it_survives_begins_the_count_anew(bad: Bad) -> None:
    rows = [bad.measure(case(number, "mine", "exits")) for number in (1, 99, 2, 3, 4)]
    assert [row["exits"].status.value for row in rows] == ["crashed", "ok", "crashed", "crashed", "crashed"]
    assert [row["exits"].reason.startswith("not tried") for row in rows] == [False, False, False, False, True]
