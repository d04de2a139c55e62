"""kbench and its worker import nothing from the folder that they are started in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from common import ROOT, Kbench

from kbench.execute.worker.launch import BOOT, module_folders, worker_environment

TRAPS = ("queue", "torch", "triton", "signal", "platform", "numbers", "statistics", "numpy", "ctypes", "json")


def traps(folder: Path) -> None:
    """Modules in the folder that tell when somebody imports them."""
    for name in TRAPS:
        (folder / f"{name}.py").write_text(f"open('imported-{name}', 'w')\nraise SystemExit('{name}')\n")


@pytest.mark.parametrize("path", ["", ".", os.pathsep, f"{os.pathsep}."])
def test_the_worker_starts_without_the_working_folder(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traps(tmp_path)
    (tmp_path / "kbench.py").write_text("open('imported-kbench', 'w')")
    (tmp_path / "mine.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.chdir(tmp_path)
    names = ", ".join(name for name in TRAPS if name not in ("torch", "triton"))
    start = BOOT.partition("from kbench")[0] + f"import kbench.protocol, importlib.util, {names}; "
    start += "print(importlib.util.find_spec('mine') is not None)"
    done = subprocess.run(
        [sys.executable, "-c", start, *module_folders()],
        env=worker_environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.glob("imported-*"))
    assert done.stdout.strip() == str("." in path)  # who names the folder finds modules there, behind all others


def test_kbench_starts_without_the_working_folder(kbench: Kbench, tmp_path: Path) -> None:
    traps(tmp_path)
    done = kbench("schema")
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.glob("imported-*"))


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
