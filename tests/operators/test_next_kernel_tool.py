"""tools/measuring_next_kernel.py times softmax and its successors with and without a cache policy, here in the interpreter."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from common import ROOT

TOOL = ROOT / "tools/measuring_next_kernel.py"


def test_only_one_of_two_launches_has_the_policy() -> None:
    spec = importlib.util.spec_from_file_location("measuring_next_kernel", TOOL)
    assert spec
    assert spec.loader
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    x = torch.empty(4, 1000, dtype=torch.bfloat16)
    without, with_it = (tool.launch_of(x, policy) for policy in (False, True))
    assert without.constants.pop("POLICY") == ""
    assert with_it.constants.pop("POLICY") == "evict_last"
    assert without == with_it


@pytest.mark.slow
def test_every_sequence_is_timed_for_every_size(tmp_path: Path) -> None:
    options = ["--mib", "0.002,0.004", "--columns", "1000", "--repeats", "1"]
    command = [sys.executable, str(TOOL), *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    head, _, *rows = [line.strip("|").split("|") for line in done.stdout.splitlines() if line.startswith("|")]
    assert len(head) == 8
    assert [row[0].strip() for row in rows] == ["0.002 MiB", "0.004 MiB"]
    assert all(abs(float(cell)) < 1e6 for row in rows for cell in row[1:])
