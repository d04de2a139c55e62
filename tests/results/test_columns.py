"""The table of columns, the fields of `Row` and the words of cells agree."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from common import ROOT

import kbench
from kbench.results.row import COLUMNS, csv_header


def test_a_frame_of_an_older_file_has_all_columns_in_their_order(tmp_path: Path) -> None:
    rows = pd.read_csv(ROOT / "results" / "h200" / "softmax-ladder.csv", dtype=str)
    rows.drop(columns="sol").to_csv(tmp_path / "older.csv", index=False)
    frame = kbench.load(tmp_path / "older.csv")
    assert [name for name in frame.columns if name in COLUMNS] == csv_header()
    assert frame["sol"].isna().all()
    assert kbench.compare(frame, frame).rows  # the frame becomes a file that kbench reads
