"""What is wrong with an operator is said of the operator, with the place in its file, and of no provider."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from common import PLUGINS, Kbench

from kbench.measure.case import CaseRun
from kbench.measure.correctness.operator_trial import attempt
from kbench.measure.machine.device import Device
from kbench.measure.machine.telemetry import Nothing
from kbench.protocol import Configuration, MeasureSettings
from kbench.registry import operator
from kbench.results.case import Case
from kbench.results.row import Row

SWEEP = """
operator: {operator}
sweep: {{M: 4, N: {n}}}
providers: [right, also-right]
measure: {{warmup_ms: 1, rep_ms: 1, rounds: 1}}
plugins: [{plugin}]
"""

FAULTS = {
    "inputs-typo": "has no axis 'MM'",
    "inputs-none": "inputs returned NoneType on M=4 N=8 float32; it must return a tuple of tensors",
    "reference-raises": "reference fails on M=4 N=8 float32: RuntimeError",
    "reference-text": "reference returned str on M=4 N=8 float32; it must return a tensor",
    "bytes-text": "bytes returned 'many' on M=4 N=8 float32; it must return a number that is not negative",
    "tolerance-nan": "tolerance returned nan",
    "scale-raises": "scale fails on M=4 N=8 float32: AttributeError",
}


@pytest.fixture(scope="module", autouse=True)
def operators() -> None:
    runpy.run_path(str(PLUGINS / "faulty.py"))


def run(name: str, n: int, session: int = 0, **settings: Any) -> CaseRun:
    return CaseRun(
        operator(name),
        Case(name, {"M": 4, "N": n}, "float32"),
        [Configuration("right", {}), Configuration("also-right", {})],
        baseline=0,
        settings=MeasureSettings("do_bench", "warm", False, 0, 1, 1, 0, timeout_s=60, build_timeout_s=60, **settings),
        session=session,
        device=Device(),
        telemetry=Nothing(),
        emit=lambda event: None,
    )


def rows(name: str, n: int) -> list[Row]:
    return run(name, n).run()


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_before_anything_is_timed(name: str) -> None:
    fault = attempt(operator(name), Case(name, {"M": 4, "N": 8}, "float32"), Device(), seed=0)
    assert fault is not None
    assert FAULTS[name] in fault.what and fault.what.startswith(f"operator {name}: ")
    line = next(n for n, text in enumerate((PLUGINS / "faulty.py").read_text().splitlines(), 1) if f'"{name}"' in text)
    assert fault.where == f"{PLUGINS / 'faulty.py'}:{line}"


def test_an_operator_without_fault_passes() -> None:
    case = Case("only-wide", {"M": 4, "N": 8}, "float32")
    assert attempt(operator("only-wide"), case, Device(), seed=0) is None


def test_a_fault_of_one_case_alone_is_still_the_operators() -> None:
    found = rows("only-wide", 128)
    assert [(row.provider, row.status.value) for row in found] == [("right", "error"), ("also-right", "error")]
    for row in found:
        assert row.reason.startswith("operator only-wide: reference fails on M=4 N=128 float32")
        assert "faulty.py:" in row.reason and "while" not in row.reason


def test_inputs_depend_on_seed_and_case_not_on_the_session() -> None:
    first, later = run("only-wide", 8, session=0), run("only-wide", 8, session=3)
    for name in ("timed", "second"):
        expected = first.drawn.draw(name)[0]
        later.drawn.normal(5)  # what else was drawn does not matter
        assert (later.drawn.draw(name)[0] == expected).all()
    assert (first.drawn.draw("timed")[0] != first.drawn.draw("second")[0]).any()


@pytest.mark.slow
def test_a_run_ends_with_a_config_error_and_no_results(kbench: Kbench, write_config, tmp_path: Path) -> None:
    config = write_config(SWEEP.format(operator="inputs-typo", n="[8, 16]", plugin=PLUGINS / "faulty.py"))
    for command in ("run", "check"):
        done = kbench(command, config)
        assert done.returncode == 2
        assert done.stderr.count("has no axis 'MM'") == 1
        assert "faulty.py:20" in done.stderr
        assert "right" not in done.stderr
    assert not list((tmp_path / "results").glob("*.csv"))


@pytest.mark.slow
def test_a_reference_that_ends_the_worker_is_the_operators_fault(kbench: Kbench, write_config) -> None:
    config = write_config(SWEEP.format(operator="reference-ends-the-process", n="8", plugin=PLUGINS / "faulty.py"))
    done = kbench("run", config, "--no-plot")
    assert done.returncode == 2
    assert "operator reference-ends-the-process: a trial call of its inputs and reference on" in done.stderr
    assert "failed: the process exited with code 3" in done.stderr


@pytest.mark.slow
def test_the_other_cases_of_an_operator_are_measured(kbench: Kbench, write_config, tmp_path: Path) -> None:
    kbench(
        "run", write_config(SWEEP.format(operator="only-wide", n="[8, 128]", plugin=PLUGINS / "faulty.py")), "--no-plot"
    )
    found = pd.read_csv(tmp_path / "results" / "sweep.csv").query("role == 'provider'").set_index(["N", "provider"])
    assert found.loc[(8, "right"), "status"] == found.loc[(8, "also-right"), "status"] == "ok"
    assert found.loc[128, "status"].eq("error").all()
