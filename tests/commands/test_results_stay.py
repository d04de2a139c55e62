"""No command that reads results overwrites them with what it writes: they cost hours of a device."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from common import ROOT, run_kbench

RESULTS = ROOT / "results" / "h200"


@pytest.mark.parametrize(
    "words",
    [
        ["compare", "a.csv", "b.csv", "--export", "csv=b.csv"],
        ["compare", "old=a.csv", "new=b.csv", "--export", "json=a.env.json"],
        ["report", "a.csv", "-o", "folder/../a.csv"],
    ],
)
def test_the_results_that_a_command_reads_stay(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name in "ab":
        for suffix in (".csv", ".env.json"):
            shutil.copy(RESULTS / f"softmax-persistent{suffix}", tmp_path / f"{name}{suffix}")
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.*")}
    done = run_kbench(words, tmp_path)
    assert done.returncode == 2
    assert "this would overwrite the results that are read; name another file" in " ".join(done.stderr.split())
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.*")} == before
