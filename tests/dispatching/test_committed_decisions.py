"""`kbench dispatch` of the committed results: the emitted function picks what was fastest, and needs nothing."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest
from common import ROOT
from decisions import SHORT, TALL, emitted

from kbench.dispatching.dispatch import DispatchOptions, dispatch

H200 = ROOT / "results" / "h200"
GELU = [H200 / "gelu-peers.csv", H200 / "short" / "gelu-peers.csv"]


@pytest.mark.slow
@pytest.mark.parametrize("files", [[TALL], [SHORT], [TALL, SHORT], [H200 / "softmax.csv"], [H200 / "gelu.csv"], GELU])
def test_the_regret_is_small_and_the_file_picks_what_the_decision_says(files: list[Path], tmp_path: Path) -> None:
    found = dispatch(files, DispatchOptions())
    assert fmean(loss.regret for loss in found.held_out) < 0.01
    assert max(loss.regret for loss in found.measured) < 0.05
    choose = emitted(found, tmp_path)
    assert [choose(**point) for point in found.evidence.points] == [loss.provider for loss in found.measured]
