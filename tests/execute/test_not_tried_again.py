"""A configuration that takes the worker down again and again costs two cases, and its neighbours nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from stand_in import Silent, StandIn, task

from kbench.execute.supervisor import WorkerSupervisor
from kbench.protocol import CatalogRequest
from kbench.results.row import Row
from kbench.results.vocabulary import Status

EXITS = """
for number, name in enumerate(names()):
    begin(number, "build", limit_s=20)
    if name == "exits" and request["case"]["axes"]["M"] != 99:
        os._exit(5)
    say("StepEnded", index=number)
say("Rows", rows=rows())
"""

Measure = Callable[..., dict[str, Row]]


@pytest.fixture
def measure(stand_in: StandIn) -> Iterator[Measure]:
    """Measure `mine` and `exits` in a case with this M: `exits` takes the worker down unless M is 99."""
    stand_in(EXITS)
    listener, todo = Silent(), task("mine", "exits")
    supervisor = WorkerSupervisor(CatalogRequest(()), listener.note)

    def measure(M: int, *, keep_trying: bool = False) -> dict[str, Row]:
        case = replace(todo.case, axes={"M": M, "N": 64})
        measured = supervisor.measure(replace(todo, case=case, keep_trying=keep_trying), listener)
        return {row.provider: row for row in measured.rows}

    yield measure
    supervisor.stop()


def test_keep_trying_tries_it_in_every_case(measure: Measure) -> None:
    rows = [measure(M, keep_trying=True) for M in (1, 2, 3, 4)]
    assert {row["exits"].reason for row in rows} == {"the process exited with code 5 while building"}
    assert {row["mine"].status for row in rows} == {Status.OK}


def test_a_case_that_it_survives_begins_the_count_anew(measure: Measure) -> None:
    rows = [measure(M) for M in (1, 99, 2, 3, 4)]
    assert [row["exits"].status.value for row in rows] == ["crashed", "ok", "crashed", "crashed", "crashed"]
    assert [row["exits"].reason.startswith("not tried") for row in rows] == [False, False, False, False, True]
