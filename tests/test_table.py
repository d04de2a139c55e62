"""Reading results files: what comes out typed, and what a damaged file is told."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest

from kbench import table
from kbench.execute.writer import Writer
from kbench.results import Case, Row
from kbench.table import TableError


def gelu_row(n: int = 1024, **fields: object) -> Row:
    case = Case("gelu", {"M": 64, "N": n, "approximate": "tanh"}, "float32")
    return Row(case, "triton", **{"ms": 0.1234567890123456789, "samples": 80, **fields})  # type: ignore[arg-type]


def write(path: Path, *rows: Row) -> Path:
    writer = Writer(path, ("M", "N", "approximate"))
    writer.write(list(rows))
    return path


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    return write(
        tmp_path / "gelu.csv", gelu_row(256), gelu_row(1024, params="num_warps=4", flags=("noisy", "throttled"))
    )


def refuses(path: Path, *words: str) -> None:
    with pytest.raises(TableError) as caught:
        table.read(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    for word in words:
        assert word in message


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_types(csv: Path) -> None:
    frame = table.read(csv)
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


def test_no_digit_is_lost(csv: Path) -> None:
    assert table.read(csv)["ms"].iloc[0] == 0.1234567890123456789


def test_rows_are_indexed_by_their_line_even_after_a_reason_of_several_lines(tmp_path: Path) -> None:
    failed = gelu_row(ms=None, samples=None, status="error", reason='two\nlines, a comma and a "quote"')
    frame = table.read(write(tmp_path / "a.csv", failed, gelu_row()))
    assert list(frame.index) == [2, 4]
    assert frame["reason"].iloc[0] == 'two\nlines, a comma and a "quote"'


def test_spellings_of_the_same_value_are_one(csv: Path) -> None:
    edit(csv, "64,256,tanh,float32", "64.0,256,tanh,fp32")
    frame = table.read(csv)
    assert list(frame["M"]) == [64, 64]
    assert list(frame["dtype"]) == ["float32", "float32"]


def test_what_a_spreadsheet_saves_is_read_alike(csv: Path) -> None:
    before = table.read(csv)
    csv.write_bytes(b"\xef\xbb\xbf" + csv.read_bytes().replace(b"\n", b"\r\n") + b"\r\n")
    pd.testing.assert_frame_equal(table.read(csv), before)


def test_a_file_with_only_a_header_has_no_rows(tmp_path: Path) -> None:
    assert len(table.read(write(tmp_path / "a.csv"))) == 0


def test_a_torn_last_line_is_left_out_with_a_warning(csv: Path) -> None:
    csv.write_text(csv.read_text()[:-60])
    frame = table.read(csv)
    assert list(frame["N"]) == [256]
    [warning] = frame.attrs["warnings"]
    assert warning.startswith(f"{csv}:3:")


def test_a_line_torn_inside_a_quoted_reason(tmp_path: Path) -> None:
    failed = gelu_row(ms=None, samples=None, status="error", reason="first line\nsecond line")
    path = write(tmp_path / "a.csv", gelu_row(), failed)
    path.write_text(path.read_text()[: path.read_text().index("second") + 3])
    frame = table.read(path)
    assert list(frame["status"]) == ["ok"]
    assert frame.attrs["warnings"][0].startswith(f"{path}:3:")


def test_missing_file(tmp_path: Path) -> None:
    refuses(tmp_path / "nothing.csv", "no such file", "kbench run")


def test_folder(tmp_path: Path) -> None:
    refuses(tmp_path, "folder")


@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_empty_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    refuses(tmp_path / "a.csv", "empty")


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n\x00\x00", b"operator,\xff\xfe", b"\x00" * 100])
def test_binary_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    refuses(tmp_path / "a.csv", "not a text file")


def test_a_csv_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("operator,provider,city\nx,y,z\n")
    refuses(tmp_path / "a.csv", ":1:", "not a kbench results file", "params", "and 3")


def test_a_column_twice(csv: Path) -> None:
    edit(csv, "M,N,approximate", "M,M,approximate")
    refuses(csv, ":1:", "column M appears twice")


@pytest.mark.parametrize("extra", ["short", "long"])
def test_wrong_number_of_fields_inside_the_file(csv: Path, extra: str) -> None:
    header, first, second = csv.read_text().splitlines()
    broken = first.rsplit(",", 3)[0] if extra == "short" else first + ",x"
    csv.write_text("\n".join([header, second, broken, second, ""]))
    refuses(csv, ":3:", "fields")


def test_too_many_fields_on_the_last_line_is_not_a_torn_line(csv: Path) -> None:
    csv.write_text(csv.read_text().rstrip("\n") + ",x\n")
    refuses(csv, ":3:", "fields")


def test_not_a_number(csv: Path) -> None:
    edit(csv, "0.12345678901234568", "0.12E")
    refuses(csv, ":2:", "ms is '0.12E'")


@pytest.mark.parametrize("cell", ["", "2S6", "2.5"])
def test_a_damaged_size(csv: Path, cell: str) -> None:
    edit(csv, "64,256", f"64,{cell}")
    refuses(csv, ":2:", "axis N", repr(cell))


def test_a_damaged_session(csv: Path) -> None:
    edit(csv, "float32,provider,0,ok", "float32,provider,,ok")
    refuses(csv, ":2:", "session")


def test_an_unknown_status(csv: Path) -> None:
    edit(csv, "provider,0,ok", "provider,0,okay")
    refuses(csv, ":2:", "'okay'", "crashed")


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
        with pytest.raises(TableError, match="no results here"):
            table.newest(folder)
