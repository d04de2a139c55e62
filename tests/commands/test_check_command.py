"""`kbench check`: what stands in the table, and below it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from common import Kbench

from kbench.errors import ExitStatus

JUDGED = """
import kbench

judged = kbench.Operator(
    "judged",
    axes=("N",),
    inputs={"x": kbench.Tensor("N")},
    outputs={"y": kbench.Tensor("N")},
    reference=lambda x: x * 2,
    check=lambda case, inputs, outputs, expected: None,
)
judged.provider("right")(lambda x: x * 2)
judged.provider("gone", requires="no_such_package")(lambda x: x * 2)


@judged.provider("even", supports=lambda case: "N must be even" if case.N % 2 else None)
def even(x, *, block=1):
    return x * 2
"""


STOPS = """
import pathlib, time

@judged.provider("stops")
def stops(x):
    if len(x) == 64:
        pathlib.Path("stopped").touch()
        time.sleep(600)
    return x * 3
"""


@pytest.mark.slow
def test_ctrl_c_prints_the_results_of_the_cases_before_it(write_config: Callable[[str], Path]) -> None:
    config = write_config(
        "{operator: judged, plugins: [judged.py], sweep: {N: [8, 64], dtype: float32}, providers: [right, stops]}"
    )
    (config.parent / "judged.py").write_text(
        JUDGED.replace("    check=lambda case, inputs, outputs, expected: None,\n", "") + STOPS
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "kbench", "check", config],
        cwd=config.parent,
        env=os.environ | {"TMPDIR": str(config.parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not (config.parent / "stopped").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    said, noted = process.communicate(timeout=60)
    assert process.returncode == ExitStatus.INTERRUPTED, noted
    random = next(line for line in said.splitlines() if line.startswith("random"))
    assert random.split() == ["random", "ok", "0.0", "wrong"]
    assert "stops: wrong on random" in said and "N=64" not in said
    assert said.splitlines()[-1] == "Interrupted after 1 of 2 cases."


@pytest.mark.slow
def test_a_case_that_does_not_fit_into_memory_is_oom_and_the_line_of_each_case_says_who_failed(
    kbench: Kbench, write_config: Callable[[str], Path]
) -> None:
    config = write_config(
        "{operator: judged, sweep: {N: [8, 1000000000000], dtype: float32}, providers: [right, even, short, raises]}"
    )
    plugin = config.parent / "judged.py"
    failing = """judged.provider("short")(lambda x: x[:-1] * 2)\njudged.provider("raises")(lambda x: x.missing)\n"""
    unjudged = JUDGED.replace("    check=lambda case, inputs, outputs, expected: None,\n", "")
    plugin.write_text(f"{unjudged}\n\n{failing}")
    done = kbench("check", config, "--plugin", plugin)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "[1/2] judged N=8 float32: checked; short wrong, raises error" in done.stderr
    assert "[2/2] judged N=1000000000000 float32: checked; right oom, even oom, short oom, raises oom" in done.stderr
    cells = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line}
    assert cells["random"][:2] == ["oom", "oom"] and cells["N=1"][:3] == ["ok", "0.0", "declined"]
    [line] = [line for line in done.stdout.splitlines() if line.startswith("right: oom")]
    assert "(judged N=1000000000000 float32): the case's inputs and reference do not fit into memory: " in line
    [line] = [line for line in done.stdout.splitlines() if line.startswith("raises: error")]
    assert "no attribute 'missing'" in line and "before timing" not in line, "nothing is timed"
