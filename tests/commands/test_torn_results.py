"""Every command that reads results says when the last row of the file is incomplete. A killed run on a full disk leaves such a
file."""

from __future__ import annotations

from pathlib import Path

import pytest
from common import ROOT, run_kbench

WHOLE = ROOT / "results" / "h200" / "softmax-persistent.csv"


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
