"""Reading results files: what comes out typed, also of a file whose last line is torn, and which file is the newest."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest
from gelu_table import edit, gelu_row, write_gelu_rows

from kbench.errors import ResultsError
from kbench.results import table


def test_types(csv: Path) -> None:
    frame = table.read_results(csv)
    assert table.axes(frame) == ["M", "N", "approximate"]
    assert list(frame["N"]) == [256, 1024]
    assert pd.api.types.is_integer_dtype(frame["N"])
    assert list(frame["approximate"]) == ["tanh", "tanh"]
    assert list(frame["params"]) == ["", "num_warps=4"]
    assert list(frame["flags"]) == ["", "noisy;throttled"]
    assert (frame[["reason", "throttle", "timer"]] == "").all(axis=None)
    assert frame["gbps"].dtype == "float64" and frame["gbps"].isna().all()
    assert frame["session"].dtype == "int64"
    assert frame.attrs["warnings"] == []


@pytest.mark.parametrize("ms", [0.1234567890123456789, 5e-324, 1.7976931348623157e308, 1 / 3, 100 * 1.1])
def test_no_digit_is_lost(tmp_path: Path, ms: float) -> None:
    assert list(
        table.read_results(write_gelu_rows(tmp_path / "a.csv", gelu_row(ms=ms, ms_p20=ms / 3)))[["ms", "ms_p20"]].iloc[
            0
        ]
    ) == [
        ms,
        ms / 3,
    ]


@pytest.mark.parametrize("cell", ["nan", "inf", "-inf", "-1.5", "0", "1e999", "1" + 400 * "0", ""])
def test_any_number_is_read_and_what_it_means_is_for_others_to_say(csv: Path, cell: str) -> None:
    edit(csv, "0.12345678901234568", cell)
    assert repr(float(table.read_results(csv)["ms"].iloc[0])) == repr(float(cell or "nan"))


def test_formulas_are_words(csv: Path) -> None:
    edit(csv, ",triton,", ",=cmd|' /C calc'!A0,")
    assert list(table.read_results(csv)["provider"]) == ["=cmd|' /C calc'!A0", "triton"]


def test_columns_of_others_are_kept_as_text(csv: Path) -> None:
    header, *rows = csv.read_text().splitlines()
    csv.write_text("\n".join([header + ",mine", *(row + ",007" for row in rows)]))
    frame = table.read_results(csv)
    assert list(frame["mine"]) == ["007", "007"] and table.axes(frame) == ["M", "N", "approximate"]


def test_rows_are_indexed_by_their_line_even_after_a_reason_of_several_lines(tmp_path: Path) -> None:
    failed = gelu_row(ms=None, samples=None, status="error", reason="as older versions wrote it")
    failed.reason = 'two\nlines, a comma and a "quote"'
    frame = table.read_results(write_gelu_rows(tmp_path / "a.csv", failed, gelu_row(session=1)))
    assert list(frame.index) == [2, 4]
    assert frame["reason"].iloc[0] == 'two lines, a comma and a "quote"'


def test_spellings_of_the_same_value_are_one(csv: Path) -> None:
    edit(csv, "64,256,tanh,float32", "64.0,256,tanh,fp32")
    frame = table.read_results(csv)
    assert list(frame["M"]) == [64, 64]
    assert list(frame["dtype"]) == ["float32", "float32"]


def test_what_a_spreadsheet_saves_is_read_alike(csv: Path) -> None:
    before = table.read_results(csv)
    empty_rows = b"," * before.shape[1] + b"\r\n \r\n\r\n"
    csv.write_bytes(b"\xef\xbb\xbf" + csv.read_bytes().replace(b"\n", b"\r\n") + empty_rows)
    pd.testing.assert_frame_equal(table.read_results(csv), before)


def test_a_file_with_only_a_header_has_no_rows(tmp_path: Path) -> None:
    assert len(table.read_results(write_gelu_rows(tmp_path / "a.csv"))) == 0


def test_a_torn_last_line_is_left_out_with_a_warning(csv: Path) -> None:
    csv.write_text(csv.read_text()[:-60])
    frame = table.read_results(csv)
    assert list(frame["N"]) == [256]
    [warning] = frame.attrs["warnings"]
    assert warning.startswith(f"{csv}:3:")


def test_a_line_torn_inside_a_quoted_reason(tmp_path: Path) -> None:
    failed = gelu_row(ms=None, samples=None, status="error", reason="as older versions wrote it")
    failed.reason = "first line\nsecond line"
    path = write_gelu_rows(tmp_path / "a.csv", gelu_row(), failed)
    path.write_text(path.read_text()[: path.read_text().index("second") + 3])
    frame = table.read_results(path)
    assert list(frame["status"]) == ["ok"]
    assert frame.attrs["warnings"][0].startswith(f"{path}:3:")


def test_a_line_torn_inside_a_character(csv: Path) -> None:
    csv.write_bytes(csv.read_bytes()[:-60] + "µ".encode()[:1])
    assert table.read_results(csv).attrs["warnings"][0].startswith(f"{csv}:3:")


def test_sizes_up_to_the_last(csv: Path) -> None:
    edit(csv, "64,256", f"{2**63 - 1},{-(2**63)}")
    assert list(table.read_results(csv)[["M", "N"]].iloc[0]) == [2**63 - 1, -(2**63)]


def test_newest_is_by_time_and_leaves_out_what_was_moved_aside(tmp_path: Path) -> None:
    for age, name in enumerate(
        ["b.20261120-101500.csv", "b.20261120-101500-1.csv", "a.20261120-101500.v2.csv", "b.csv", "a.v2.csv"]
    ):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    assert table.newest(tmp_path).name == "b.csv"


def test_newest_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "softmax.20261120-101500.csv").touch()
    (tmp_path / "softmax.env.json").touch()
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ResultsError, match="no results file here"):
            table.newest(folder)
