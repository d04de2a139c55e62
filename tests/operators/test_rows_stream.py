"""tools/rows_stream.py times the norms' large launches with and without hints, here in Triton's interpreter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from common import ROOT

ROWS = "rmsnorm-bfloat16-4096"
LAUNCHES = (
    "hint", "own launch without it", "no hint", "no hint, stores evict_first", "hint, stores evict_first",
    "no hint, loads .cg", "torch-compile", "copy_",
)  # fmt: skip


@pytest.mark.slow
def test_every_launch_computes_the_same_and_is_timed(tmp_path: Path) -> None:
    options = ["--only", ROWS, "--elements", "4096", "--matrices", "1", "--repeats", "1", "--limit-s", "200"]
    command = [sys.executable, str(ROOT / "tools/rows_stream.py"), *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "DIFFERS" not in done.stdout
    cells = [[cell.strip() for cell in line[1:-1].split("|")] for line in done.stdout.splitlines() if ROWS in line]
    assert [row[1] for row in cells] == list(LAUNCHES)
    for row in cells:
        assert float(row[2]) > 0 and float(row[4]) > 0
        assert float(row[5]) >= 0, "an interpreted launch can take more than 2000 times as long as a copy: 0.000"
        assert row[3] == "-", "graphs need a device"
