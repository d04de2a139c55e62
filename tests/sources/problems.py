"""Writes problems in the formats of other benchmarks. All of them were written for these tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SCALE_REFERENCE = """
import torch

def run(x, a, weight):
    wide = x.to(torch.float32)
    y = (wide * a * weight.to(torch.float32)).to(x.dtype)
    return y, wide.sum(-1).to(torch.float32)
"""

SCALE: dict[str, Any] = {
    "name": "scale_n8",
    "axes": {
        "M": {"type": "var"},
        "N": {"type": "const", "value": 8},
        "twice": {"type": "expr", "expression": "N * 2"},
    },
    "inputs": {
        "x": {"shape": ["M", "twice"], "dtype": "bfloat16"},
        "a": {"shape": None, "dtype": "float32"},
        "weight": {"shape": ["twice"], "dtype": "bfloat16"},
    },
    "outputs": {
        "y": {"shape": ["M", "twice"], "dtype": "bfloat16"},
        "total": {"shape": ["M"], "dtype": "float32"},
    },
    "reference": SCALE_REFERENCE,
}
"""A definition: two outputs, a scalar between the tensors, and an axis that is computed from another."""

RANDOM = {"type": "random"}


def scale_workload(rows: int, a: float = 2.0, **more: object) -> dict[str, Any]:
    inputs = {"x": RANDOM, "a": {"type": "scalar", "value": a}, "weight": RANDOM}
    return {"uuid": f"of-{rows}-rows", "axes": {"M": rows}, "inputs": inputs, **more}


def solution(
    name: str, code: str, *, of: str = "scale_n8", into: bool = False, language: str = "python", **sources: str
) -> dict[str, Any]:
    """A solution with one function `run`, and more files."""
    files = {"main.py": code, **{f"{stem}.py": text for stem, text in sources.items()}}
    return {
        "name": name,
        "definition": of,
        "author": "test",
        "spec": {
            "language": language,
            "target_hardware": ["local"],
            "entry_point": "main.py::run",
            "destination_passing_style": into,
        },
        "sources": [{"path": path, "content": text} for path, text in files.items()],
    }


def write_problem(folder: Path, definition: object, *workloads: object, **solutions: object) -> Path:
    """A problem folder as SOL-ExecBench has it."""
    folder.mkdir(exist_ok=True)
    (folder / "definition.json").write_text(json.dumps(definition, indent=2))
    (folder / "workload.jsonl").write_text("".join(json.dumps(each) + "\n" for each in workloads))
    for name, each in solutions.items():
        (folder / f"{name}.json").write_text(json.dumps(each, indent=2))
    return folder


def changed(**changes: object) -> Mapping[str, Any]:
    """SCALE with other entries."""
    return {**SCALE, **changes}
