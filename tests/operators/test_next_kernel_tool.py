"""tools/measuring_next_kernel.py times softmax and its successors with and without a cache policy, here in the interpreter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from common import ROOT


@pytest.mark.slow
def test_every_sequence_is_timed_for_every_size(tmp_path: Path) -> None:
    options = ["--mib", "0.002,0.004", "--columns", "1000", "--repeats", "1"]
    command = [sys.executable, str(ROOT / "tools/measuring_next_kernel.py"), *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    head, _, *rows = [line.strip("|").split("|") for line in done.stdout.splitlines() if line.startswith("|")]
    assert len(head) == 8
    assert [row[0].strip() for row in rows] == ["0.002 MiB", "0.004 MiB"]
    assert all(abs(float(cell)) < 1e6 for row in rows for cell in row[1:])
