"""What every command that reads results promises: it says when the last row is incomplete, as a run on a full disk leaves it.
And it does not overwrite what it reads, which cost hours of a device."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from common import ROOT, run_kbench

RESULTS = ROOT / "results" / "h200"
WHOLE = RESULTS / "softmax-persistent.csv"


@pytest.mark.parametrize(
    "words",
    [
        ["show", "torn.csv"],
        ["plot", "torn.csv", "--out", "pictures", "--format", "svg"],
        ["dispatch", "torn.csv", "--holdout", "0"],
        ["why", "torn.csv", "--row", "provider=triton-row,N=2048"],
        ["compare", WHOLE, "torn.csv"],
        ["history", "check", "."],
    ],
    ids=lambda words: words[0],
)
def test_an_incomplete_last_row_is_not_left_out_in_silence(words: list[object], tmp_path: Path) -> None:
    (tmp_path / "torn.csv").write_bytes(WHOLE.read_bytes()[:-30])
    done = run_kbench(words, tmp_path)
    assert done.returncode == 0, done.stderr
    pictures = "".join(path.read_text() for path in tmp_path.glob("pictures/*.svg"))  # it is in their captions
    said = " ".join((done.stdout + done.stderr + pictures).split())
    assert "the last row is incomplete (an interrupted run?) and was left out" in said


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
