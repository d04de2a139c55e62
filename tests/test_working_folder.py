"""A worker imports nothing from the folder that kbench is started in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from common import ROOT, Kbench

from kbench.execute.worker import worker_environment

TRAPS = ("queue", "torch", "triton", "signal", "platform", "numbers", "statistics", "numpy", "ctypes", "json")


def traps(folder: Path) -> None:
    """Modules in the folder that tell when somebody imports them."""
    for name in TRAPS:
        (folder / f"{name}.py").write_text(f"open('imported-{name}', 'w')\nraise SystemExit('{name}')\n")


@pytest.mark.slow
def test_a_run_imports_nothing_from_the_working_folder(kbench: Kbench, tmp_path: Path) -> None:
    traps(tmp_path)
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "helper.py").write_text("import torch\ndef softmax(x): return torch.softmax(x, -1)\n")
    (tmp_path / "plugins" / "mine.py").write_text(
        "import kbench, helper\nkbench.operator('softmax').provider('mine')(helper.softmax)\n"
    )
    (tmp_path / "s.yaml").write_text(
        "operator: softmax\nsweep: {M: 4, N: 64}\nproviders: [torch-native, mine]\nplugins: [plugins/mine.py]\n"
        "measure: {warmup_ms: 1, rep_ms: 2, rounds: 1}\n"
    )
    done = kbench("run", "s.yaml", "--no-plot")
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.glob("imported-*"))


def test_the_worker_finds_kbench_uninstalled() -> None:
    assert str(ROOT) in worker_environment()["PYTHONPATH"].split(os.pathsep)
