"""The files of a problem can import each other, also inside of their functions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from promises.outside import MadeOnce, providers_of, run_kbench

DEFINITION = {
    "name": "scaled",
    "axes": {"M": {"type": "var"}, "N": {"type": "const", "value": 8}},
    "inputs": {"x": {"shape": ["M", "N"], "dtype": "float32"}},
    "outputs": {"y": {"shape": ["M", "N"], "dtype": "float32"}},
    "reference": "def run(x):\n    return x * 2\n",
}
WORKLOAD = {"uuid": "of-3-rows", "axes": {"M": 3}, "inputs": {"x": {"type": "random"}}}


def solution(name: str, **files: str) -> dict[str, object]:
    return {
        "name": name,
        "definition": "scaled",
        "author": "test",
        "spec": {
            "language": "python",
            "target_hardware": ["local"],
            "entry_point": "main.py::run",
            "destination_passing_style": False,
        },
        "sources": [{"path": f"{path.replace('__', '/')}.py", "content": text} for path, text in files.items()],
    }


IN_FUNCTION = "def run(x):\n    from parts import scaled\n    return scaled(x)\n"
SOLUTIONS = [
    solution("adds", main=IN_FUNCTION, parts="def scaled(x):\n    return x + x\n"),
    solution("doubles", main=IN_FUNCTION, parts="def scaled(x):\n    return x * 2\n"),
    solution("triples", main=IN_FUNCTION, parts="def scaled(x):\n    return x * 3\n"),
    solution(
        "in-turn",
        main="import parts\ndef run(x):\n    return parts.scaled(x)\n",
        parts="from constants import two\ndef scaled(x):\n    import constants\n    return x * constants.two\n",
        constants="two = 2\n",
    ),
    solution("lacks", main="def run(x):\n    import no_such_file\n    return x * 2\n"),
]

MODEL = """
import torch

class {name}(torch.nn.Module):
    def forward(self, x):
        {body}
"""
PROBLEM = (
    MODEL.format(name="Model", body="return x * 2")
    + """
size = 8

def get_inputs():
    return [torch.rand(size, size)]

def get_init_inputs():
    return []
"""
)


@pytest.fixture(scope="session")
def problems(made_once: MadeOnce) -> Path:
    """The results folder of a problem of FlashInfer-Trace and one of KernelBench."""

    def make(folder: Path) -> None:
        (folder / "trace").mkdir()
        (folder / "trace" / "definition.json").write_text(json.dumps(DEFINITION))
        (folder / "trace" / "workload.jsonl").write_text(json.dumps(WORKLOAD) + "\n")
        for each in SOLUTIONS:
            (folder / "trace" / f"{each['name']}.json").write_text(json.dumps(each))
        (folder / "models").mkdir()
        (folder / "models" / "twice.py").write_text(PROBLEM)
        body = "from beside import doubled; return doubled(x)"
        (folder / "models" / "mine.py").write_text(MODEL.format(name="ModelNew", body=body))
        (folder / "models" / "beside.py").write_text("def doubled(x):\n    return x + x\n")
        quick = ("--set", "measure.rounds=1", "--set", "measure.rep_ms=1", "--set", "measure.warmup_ms=1", "--no-plot")
        for problem in ("trace", "models"):
            run_kbench("run", problem, *quick, folder=folder)

    return made_once("problem-imports", make) / "results"


@pytest.mark.parametrize(
    ("solution", "status"),
    [("adds", "ok"), ("doubles", "ok"), ("triples", "wrong"), ("in-turn", "ok"), ("lacks", "error")],
)
def test_a_solution_imports_its_own_files_when_it_is_called(problems: Path, solution: str, status: str) -> None:
    (row,) = [row for row in providers_of(problems / "scaled.csv") if row["provider"] == solution]
    assert row["status"] == status, row["reason"]
    if status == "error":
        assert "no_such_file" in row["reason"]


def test_a_model_imports_a_file_beside_it_when_it_is_called(problems: Path) -> None:
    (row,) = [row for row in providers_of(problems / "twice.csv") if row["provider"] != "reference"]
    assert row["status"] == "ok", row["reason"]
