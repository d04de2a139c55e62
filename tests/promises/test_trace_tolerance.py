"""Problems of FlashInfer-Trace whose own tolerance judges the outputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from promises.outside import MadeOnce, providers_of, run_kbench

DEFINITION = {
    "name": "double",
    "axes": {"N": {"type": "var"}},
    "inputs": {"x": {"shape": ["N"], "dtype": "float32"}},
    "outputs": {"y": {"shape": ["N"], "dtype": "float32"}},
    "reference": "import torch\n\n\ndef run(x):\n    assert x.dtype == torch.float32\n    return x * 2\n",
}
"""It does not run in float64, so the problem's own tolerance judges the outputs."""

WORKLOAD = {"uuid": "w", "axes": {"N": 1000}, "inputs": {"x": {"type": "random"}}}

SOLUTIONS = {
    "right": "def run(x):\n    return x + x\n",
    "changes_x": "def run(x):\n    return x.mul_(2).clone()\n",
    "one_of_1000": "def run(x):\n    y = x + x\n    y[7] += 1\n    return y\n",
}


@pytest.fixture
def reasons(made_once: MadeOnce) -> dict[str, tuple[str, str]]:
    """The status and the reason of each solution."""

    def run(folder: Path) -> None:
        (folder / "definition.json").write_text(json.dumps(DEFINITION))
        line = {"definition": "double", "solution": None, "workload": WORKLOAD}
        (folder / "workload.jsonl").write_text(json.dumps(line))
        for name, code in SOLUTIONS.items():
            spec = {"language": "python", "target_hardware": ["any"], "entry_point": "main.py::run"}
            spec["destination_passing_style"] = False  # type: ignore[assignment]
            solution = {"name": name, "definition": "double", "author": "me", "spec": spec}
            solution |= {"sources": [{"path": "main.py", "content": code}]}
            (folder / f"{name}.json").write_text(json.dumps(solution))
        options = ("--set", "rounds=2", "--set", "warmup_ms=1", "--set", "rep_ms=2", "--set", "cache=warm")
        run_kbench("run", ".", *options, "--out", "results", folder=folder)

    [results] = (made_once("flashinfer-double", run) / "results").glob("*.csv")
    return {row["provider"]: (row["status"], row["reason"]) for row in providers_of(results)}


def test_a_solution_that_changes_its_input_gets_advice_that_its_author_can_follow(
    reasons: dict[str, tuple[str, str]],
) -> None:
    status, reason = reasons["changes_x"]
    assert status == "wrong" and "changed its input x" in reason and "copy" in reason
    assert "mutates=" not in reason  # for providers that are registered in Python


def test_without_a_tolerance_of_the_workload_every_element_must_be_right(reasons: dict[str, tuple[str, str]]) -> None:
    assert reasons["right"][0] == reasons["reference"][0] == "ok"
    status, reason = reasons["one_of_1000"]
    assert status == "wrong" and "1 of 1,000 elements" in reason
