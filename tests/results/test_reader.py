"""Reading results files: what the cells become, and what a damaged file is told, with its line."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from kbench.errors import ResultsError
from kbench.execute.writer import Writer
from kbench.results.case import Case, Value
from kbench.results.reader import read_results
from kbench.results.row import Row

AXES = ("M", "N", "approximate")


def gelu_row(n: int = 1024, **fields: object) -> Row:
    case = Case("gelu", {"M": 64, "N": n, "approximate": "tanh"}, "float32")
    return Row(case, "triton", **{"ms": 0.1234567890123456789, "samples": 80, **fields})  # type: ignore[arg-type]


def write_gelu_rows(path: Path, *rows: Row) -> Path:
    writer = Writer(path, AXES).begin()
    writer.write(list(rows))
    return path


def refuses(path: Path, *words: str) -> None:
    with pytest.raises(ResultsError) as caught:
        read_results(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    for word in words:
        assert word in message


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    return write_gelu_rows(
        tmp_path / "gelu.csv", gelu_row(256), gelu_row(1024, params="num_warps=4", flags=("noisy", "throttled"))
    )


def test_rows_come_back_as_they_were_written(tmp_path: Path) -> None:
    rows = [
        gelu_row(
            ms=1 / 3,
            round_ms=(0.25, 1 / 3),
            flags=("noisy", "throttled"),
            deterministic=False,
            max_rel_err=float("inf"),
        ),
        gelu_row(256, params="num_warps=4,num_stages=2", ms=5e-9, reason='a comma, and a "quote"'),
        gelu_row(session=1, ms=None, status="error", reason="lost"),
    ]
    results = read_results(write_gelu_rows(tmp_path / "a.csv", *rows))
    assert list(results.rows) == rows and list(results.lines) == [2, 3, 4]
    assert results.axes == AXES and results.warnings == []


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("eps", [1e-6, 1 / 3, 5e-324, 1.7976931348623157e308, -2.5, 1e16, 1e22]),
        ("eps", [0.0, 0.1]),
        ("causal", [True, False]),
        ("window", [-1, 0, 2**62]),
    ],
)
def test_no_value_and_no_type_of_a_scalar_is_lost(tmp_path: Path, name: str, values: list[Value]) -> None:
    cases = [Case("norm", {"M": 64, name: value}, "float32") for value in values]
    Writer(tmp_path / "a.csv", ("M", name)).begin().write([Row(case, "mine", ms=1.0) for case in cases])
    rows = read_results(tmp_path / "a.csv").rows
    assert [row.case for row in rows] == cases
    assert [type(row.case.axes[name]) for row in rows] == [type(value) for value in values]
    pd.testing.assert_series_equal(pd.read_csv(tmp_path / "a.csv")[name], pd.Series(values, name=name))


def test_a_lone_carriage_return_in_a_reason_ends_no_line(tmp_path: Path) -> None:
    [row] = read_results(write_gelu_rows(tmp_path / "a.csv", gelu_row(ms=None, status="error", reason="a\rb"))).rows
    assert row.reason == "a\\rb"


def test_what_a_spreadsheet_saves_is_read_alike(csv: Path) -> None:
    before = read_results(csv)
    empty_rows = b"," * (len(before.header) - 1) + b"\r\n \r\n\r\n"
    csv.write_bytes(b"\xef\xbb\xbf" + csv.read_bytes().replace(b"\n", b"\r\n") + empty_rows)
    assert read_results(csv) == before


def test_columns_that_older_files_lack_are_not_known_and_those_of_others_are_left_out(csv: Path) -> None:
    edit(csv, ",sol,", ",mine,")
    results = read_results(csv)
    assert [row.sol for row in results.rows] == [None, None] and "mine" not in results.axes


def test_a_torn_last_line_is_left_out_with_a_warning_unless_only_its_line_break_is_missing(csv: Path) -> None:
    whole = csv.read_bytes()
    csv.write_bytes(whole[:-60] + "µ".encode()[:1])
    results = read_results(csv)
    [warning] = results.warnings
    assert warning.startswith(f"{csv}:3:") and len(results.rows) == 1
    csv.write_bytes(whole[:-1])
    assert len(read_results(csv).rows) == 2 and not read_results(csv).warnings


def test_a_line_torn_inside_a_quoted_reason(tmp_path: Path) -> None:
    path = write_gelu_rows(tmp_path / "a.csv", gelu_row(), gelu_row(ms=None, status="error", reason="one, two"))
    path.write_text(path.read_text().partition(" two")[0])
    results = read_results(path)
    assert len(results.rows) == 1 and results.torn == 3


# -- refused, with the line


def test_a_row_that_its_session_has_twice_is_an_error_with_both_lines(tmp_path: Path) -> None:
    path = write_gelu_rows(tmp_path / "a.csv", gelu_row(), gelu_row(session=1), gelu_row())
    refuses(path, ":4: gelu M=64 N=1024 ", "session 0 is also on line 2; keep one of the two lines")


@pytest.mark.parametrize("column", ["provider", "reason", "env_id"])
def test_a_stray_quote_takes_no_rows_with_it(tmp_path: Path, column: str) -> None:
    path = write_gelu_rows(tmp_path / "a.csv", *(gelu_row(2**n) for n in range(8, 13)))
    lines = [line.split(",") for line in path.read_text().splitlines()]
    place = lines[0].index(column)
    lines[2][place] = '"' + lines[2][place]
    path.write_text("\n".join(map(",".join, lines)) + "\n")
    refuses(path, ":3:", "quote")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["empty"]),
        (b"version https://git-lfs", [":1: not a kbench results file, it begins with 'version https"]),
        (b"operator,provider,city\nx,y,z\n", [":1: not a kbench results file", "params", "and 7"]),
    ],
)
def test_a_file_of_something_else(tmp_path: Path, content: bytes, words: list[str]) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    refuses(tmp_path / "a.csv", *words)


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("0.12345678901234568", "0.12E", "ms is '0.12E', not a number"),
        ("0.12345678901234568", "inf", "ms is inf, which is no time"),
        ("0.12345678901234568", "1e-12", "ms is 1e-12, which is no time"),
        ("0.12345678901234568", "", "the status is ok, but there is no time"),
        ("provider,0,ok", "provider,0,oom", "the status is oom, but there is a time"),
        ("0.12345678901234568,,,,,80", "0.12345678901234568,,,,1;2;,80", "round_ms is '1;2;', not times"),
        ("provider,0,ok", "contrl,0,ok", "role is 'contrl', which is not one of provider, control"),
        ("provider,0,ok", "provider,0,fine", "status is 'fine', which is not one of ok, checked"),
        ("provider,0,ok", "provider,-1,ok", "session is '-1', not a session number"),
        ("64,256", "64,2S6", "N is '2S6', not a size"),
        ("64,256", "64,", "N is '', not a size"),
        ("256,tanh", "256,", "approximate is '', not a size or a word"),
    ],
)
def test_a_damaged_cell(csv: Path, old: str, new: str, what: str) -> None:
    edit(csv, old, new)
    refuses(csv, ":2:", what, "repair or delete the line")


def test_lines_that_do_not_belong(csv: Path) -> None:
    header, first, second = csv.read_text().splitlines()
    for lines, where, what in (
        ([header, second, first + ",x", second], ":3:", "fields where the header has"),
        ([header, second, first.rsplit(",", 3)[0], second], ":3:", "fields where the header has"),
        ([header, first, second, header, first], ":4:", "M is 'M', not a size"),
    ):
        csv.write_text("\n".join([*lines, ""]))
        refuses(csv, where, what)
