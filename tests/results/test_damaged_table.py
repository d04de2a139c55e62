"""Reading results files: what a damaged file, a file of something else and one without an end are told."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest
from gelu_table import edit, gelu_row, refuses, write_gelu_rows

from kbench.errors import ResultsError
from kbench.results import csv_reader, table


def test_a_missing_column_may_have_been_removed_by_hand(csv: Path) -> None:
    edit(csv, ",build_ms,", ",build,")
    refuses(
        csv,
        "it has no column build_ms, because it was edited, or because another version",
        "restore the column or run the sweep",
    )


def test_a_row_that_its_session_has_twice_is_an_error_with_both_lines(tmp_path: Path) -> None:
    path = write_gelu_rows(tmp_path / "a.csv", gelu_row(), gelu_row(session=1), gelu_row())
    with pytest.raises(ResultsError) as caught:
        table.read_results(path)
    assert str(caught.value).startswith(f"{path}:4: gelu M=64 N=1024 ")
    assert str(caught.value).endswith("session 0 is also on line 2; delete one of the two lines")


def test_rows_of_two_versions_of_an_operator_are_not_two_sessions(tmp_path: Path) -> None:
    """Also if an axis column is missing: then two cases look like one."""
    path = write_gelu_rows(tmp_path / "a.csv", gelu_row(case_hash="a"), gelu_row(case_hash="b"))
    refuses(path, ":3: gelu", "also on line 2, with another case_hash", "a column of its sizes is missing")


def test_rows_of_two_devices_are_not_two_sessions(tmp_path: Path) -> None:
    path = write_gelu_rows(tmp_path / "a.csv", *(gelu_row(case_hash="a", device_index=at) for at in (0, 1)))
    refuses(path, ":3: gelu", "session 0 is also on line 2; delete one of the two lines")


@pytest.mark.parametrize("column", ["provider", "reason", "env_id"])
def test_a_stray_quote_takes_no_rows_with_it(tmp_path: Path, column: str) -> None:
    """It opens a cell that ends with the file, or at the next stray quote: the rows between would be lost in it."""
    path = write_gelu_rows(tmp_path / "a.csv", *(gelu_row(2**n) for n in range(8, 13)))
    lines = [line.split(",") for line in path.read_text().splitlines()]
    place = lines[0].index(column)
    lines[2][place] = '"' + lines[2][place]
    for second in (False, True):
        lines[4][place] += '"' * second
        path.write_text("\n".join(map(",".join, lines)) + "\n")
        refuses(path, ":3:", "quote")


def test_a_stray_quote_does_not_move_words_to_other_columns(csv: Path) -> None:
    """Read leniently, the row below still has all its fields."""
    edit(csv, "num_warps=4", '"num_warps=4,num_stages=2"')
    edit(csv, 'triton,"', '"triton,"')
    refuses(csv, ":3: not readable as CSV")


def test_missing_file(tmp_path: Path) -> None:
    refuses(tmp_path / "nothing.csv", "no such file", "kbench run")
    (tmp_path / "link.csv").symlink_to("nowhere.csv")
    refuses(tmp_path / "link.csv", "no such file")


def test_folder(tmp_path: Path) -> None:
    refuses(tmp_path, "folder")


def test_what_would_block_or_never_end_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    for path in (tmp_path / "pipe.csv", Path("/dev/zero")):
        refuses(path, "not a regular file")


def test_a_file_that_may_not_be_read(csv: Path) -> None:
    csv.chmod(0)
    if os.access(csv, os.R_OK):
        pytest.skip("this user may read everything")
    refuses(csv, "cannot be read", "permissions")


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file whose reading fails")
def test_a_file_whose_reading_fails() -> None:
    refuses(Path("/proc/self/mem"), "cannot be read (Input/output error)")


@pytest.mark.parametrize("content", [b"", b"\0", b"x" * 100])
def test_a_gigabyte_on_one_line_is_refused_unread(csv: Path, content: bytes) -> None:
    """The file is sparse: on the disk it is small."""
    with csv.open("r+b") as file:
        file.seek(0, os.SEEK_END)
        file.write(content or b"a" * 2 * csv_reader.MAX_RECORD_BYTES)
        file.truncate(1 << 30)
    tracemalloc.start()
    refuses(csv, ":4:", "not a text file" if content else "longer than 128 KiB")
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()


@pytest.mark.slow
def test_too_many_lines(csv: Path) -> None:
    with csv.open("a") as file:
        file.write("\n" * csv_reader.MAX_LINES)
    refuses(csv, f":{csv_reader.MAX_LINES + 1}:", "longer than 1,000,000 lines")


def test_too_many_bytes(csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_reader, "MAX_BYTES", csv.stat().st_size - 1)
    refuses(csv, ":3:", "longer than", "split it")


@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_empty_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    refuses(tmp_path / "a.csv", "empty")


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n\x00\x00", b"operator,\xff\xfe", b"\x00" * 100])
def test_binary_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    refuses(tmp_path / "a.csv", ":1: not a text file")


@pytest.mark.parametrize("byte", [b"\0", b"\xff"])
def test_a_byte_that_is_no_text_inside_the_file(csv: Path, byte: bytes) -> None:
    csv.write_bytes(csv.read_bytes().replace(b"1024", b"1024" + byte))
    refuses(csv, ":3: not a text file")


def test_a_csv_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("operator,provider,city\nx,y,z\n")
    refuses(tmp_path / "a.csv", ":1:", "not a kbench results file", "params", "and 3")


def test_a_column_twice(csv: Path) -> None:
    edit(csv, "M,N,approximate", "M,M,approximate")
    refuses(csv, ":1:", "column 'M' appears twice")


@pytest.mark.parametrize("older", [True, False])
def test_a_column_missing(csv: Path, older: bool) -> None:
    edit(csv, "max_rel_err,", "" if older else "error,")
    refuses(csv, ":1:", "another version", "max_rel_err")


def test_columns_in_another_order(csv: Path) -> None:
    edit(csv, "role,session,", "session,role,")
    refuses(csv, ":1:", "found column session at the place of column role; put the columns back into the order")


@pytest.mark.parametrize("name", ["", "\a", "line"])
def test_an_axis_with_no_proper_name(csv: Path, name: str) -> None:
    edit(csv, "params,M,", f"params,{name},")
    refuses(csv, ":1:", repr(name).strip("'"))


def test_more_columns_than_any_operator_has(csv: Path) -> None:
    edit(csv, "params,M,", f"params,{','.join(f'a{i}' for i in range(10_000))},")
    refuses(csv, ":1:", "columns")


@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_two_files_in_one(csv: Path, start: str) -> None:
    csv.write_text(2 * (start + csv.read_text()))
    refuses(csv, ":4:", "second header")


def test_two_files_of_different_versions_in_one(csv: Path) -> None:
    lines = csv.read_text().splitlines()
    csv.write_text("\n".join([*lines, *(line.partition(",")[2] for line in lines)]))
    refuses(csv, ":4:", "fields")
    csv.write_text("\n".join([*lines, *(line.rpartition(",")[0] for line in lines)]))
    refuses(csv, ":4:", "second header")


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


@pytest.mark.parametrize("cell", ["", "2S6", "2.5", "1e3", "inf", "1_024", "٤", str(2**63), "1" + 5000 * "0"])
def test_a_damaged_size(csv: Path, cell: str) -> None:
    edit(csv, "64,256", f"64,{cell}")
    refuses(csv, ":2: N is", "not a size")


def test_a_size_that_is_too_large_in_every_row_is_no_word(csv: Path) -> None:
    csv.write_text(csv.read_text().replace("64,", f"{10**400},"))
    refuses(csv, ":2: M is '1000", "...'", "not a size")


@pytest.mark.parametrize("cell", ["", "-1", "0.5", "inf", "1e300", str(2**63)])
def test_a_damaged_session(csv: Path, cell: str) -> None:
    edit(csv, "float32,provider,0,ok", f"float32,provider,{cell},ok")
    refuses(csv, ":2: session is", "number")


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("gelu,triton", "gelu,", "provider is ''"),
        ("gelu,triton", "gelu,tri\x1b[31mton", "provider is 'tri\\x1b[31mton'"),
        ("gelu,triton", 'gelu,"tri\u2028ton"', "provider is 'tri\\u2028ton'"),
        ("gelu,triton", f"gelu,{'x' * 100}\a", "xx...'"),
        ("tanh,float32", "tanh,", "dtype is ''"),
        ("256,tanh", "256,", "approximate is ''"),
        ("provider,0,ok", "contrl,0,ok", "role is 'contrl', which is not one of provider, control"),
        ("0.12345678901234568,,,,,80", "0.12345678901234568,,,,1;2;,80", "round_ms is '1;2;', not numbers"),
        ("0.12345678901234568,,,,,80", "0.12345678901234568,,,,1 2,80", "round_ms is '1 2', not numbers"),
    ],
)
def test_a_damaged_word(csv: Path, old: str, new: str, what: str) -> None:
    edit(csv, old, new)
    refuses(csv, ":2: ", what)


def test_an_unknown_status(csv: Path) -> None:
    edit(csv, "provider,0,ok", "provider,0,okay")
    refuses(csv, ":2:", "'okay'", "crashed")
