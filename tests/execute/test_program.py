"""How kbench ends a script that takes too long, and what it says of a process that has ended by itself."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kbench.execute.program import ProgramRun, _watched
from kbench.results.row import Row
from kbench.results.vocabulary import Status

TESTS = Path(__file__).parents[1]

PROCESSES = """
import os, sys, time
from making import machine_info
from kbench.protocol import ROWS_FILE, Catalog, DeviceInfo, PointBegun, StepBegun, StepEnded, encode
from kbench.results.case import Case
from kbench.results.row import Row

def say(*messages):
    with open(os.environ[ROWS_FILE], "ab", buffering=0) as file:
        file.write(b"".join(encode(message, str(os.getpid())) for message in messages))

def begin_step(limit_s):
    machine = Catalog(DeviceInfo("cpu", "host"), (), {}, (), machine_info())
    row = Row(Case("plot", {"N": 8}, "float32"), "torch", status="crashed", reason="the process has ended")
    say(machine, PointBegun("N=8", (row,)), StepBegun(0, "torch", "build", limit_s))
"""

CHILD_DIES = """
child = os.fork()
if not child:
    begin_step(0.5)
    os.kill(os.getpid(), 11)
time.sleep(1.5)
os.wait()
time.sleep(1)
"""

QUIET_STEP = """
begin_step(60)
time.sleep(3)
say(StepEnded())
"""


def run(
    code: str, folder: Path, silence_limit_s: float, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[Row], ProgramRun]:
    """Run processes to their end. Returns the rows of those that have ended in a step."""
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    written = ProgramRun("program", folder)
    with _watched(written, silence_limit_s) as program:
        lost = program.run_to_end([sys.executable, "-c", PROCESSES + code])
    return [row for row, _ in lost], written


def test_a_child_that_died_in_a_step_has_crashed_even_if_the_program_runs_on_past_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [row], written = run(CHILD_DIES, tmp_path, 60, monkeypatch)
    assert (row.status, row.reason) == (Status.CRASHED, "the process has ended while building")
    assert written.code == 0


def test_a_script_may_be_silent_as_long_as_its_step_may_take_and_is_ended_if_it_is_silent_between_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, written = run(QUIET_STEP + "time.sleep(60)", tmp_path, 2, monkeypatch)
    assert rows == [] and written.fault and "the last time 2 s ago" in written.fault.message
