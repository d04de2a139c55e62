"""`kbench check`: what stands in the table, and below it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from common import Kbench

from kbench.commands.check import print_checks
from kbench.errors import ExitStatus
from kbench.execute.plan import Plan
from kbench.protocol import Configuration, OperatorInfo
from kbench.results.case import Case
from kbench.results.row import Row
from kbench.results.vocabulary import Status

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


def check_plan(*providers: str, judged: bool = False) -> Plan:
    info = OperatorInfo(("N",), {}, (), judged=judged)
    configurations = [Configuration(name, {}) for name in providers]
    sweep = SimpleNamespace(operator="twice", configurations=configurations, info=info)
    return cast(Plan, SimpleNamespace(sweep=sweep, unavailable={}))


def checked(provider: str, edge: str, status: Status = Status.CHECKED, reason: str = "") -> Row:
    return Row(Case("twice", {"N": 7}, "float32"), provider, status=status, reason=reason, edge=edge)


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


def test_check_says_once_why_a_provider_declines(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("even[block=1]", "even[block=2]")
    rows = [
        replace(row, case=Case("twice", {"N": n}, "float32"), params=params)
        for n in (3, 5, 7)
        for params in ("block=1", "block=2")
        for row in (checked("even", edge, Status.UNSUPPORTED, "N must be even") for edge in ("random", "N=1"))
    ]
    plan = check_plan(*names)
    cast(Any, plan).unavailable["gone"] = "Python package 'no_such_package' is not installed"
    print_checks(rows, plan)
    said = capsys.readouterr().out.splitlines()
    assert said[-2:] == [
        "even: declined on random, N=1 (3 cases): N must be even",
        "gone: unavailable: Python package 'no_such_package' is not installed",
    ]


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


AUTOTUNED = """
import torch
import triton
import triton.language as tl

import kbench


@triton.autotune(configs=[triton.Config({"BLOCK": block}) for block in (64, 128)], key=["count"])
@triton.jit
def twice(out, x, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < count) * 2, mask=at < count)


doubled = kbench.Operator(
    "doubled",
    axes=("N",),
    inputs={"x": kbench.Tensor("N")},
    outputs={"y": kbench.Tensor("N")},
    reference=lambda x: x * 2,
)


@doubled.provider("autotuned", requires="triton")
def autotuned(x):
    x, out = x.contiguous(), torch.empty(x.shape, device=x.device)
    if x.numel():
        twice[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](out, x, x.numel())
    return out
"""


@pytest.mark.slow
def test_an_autotuned_kernel_is_checked_without_a_gpu(kbench: Kbench, write_config: Callable[[str], Path]) -> None:
    """Its autotuner asks for a driver of Triton, which a host does not have."""
    pytest.importorskip("triton")
    config = write_config("operator: doubled\nplugins: [plugin.py]\nsweep: {N: 300}\nproviders: [autotuned]\n")
    (config.parent / "plugin.py").write_text(AUTOTUNED)
    done = kbench("check", config)
    assert done.returncode == 0, done.stdout
