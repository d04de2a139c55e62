"""Whatever a results file holds, it is read or refused in one line that says where: never a traceback.

A good file is damaged in its bytes, cells, lines and header, at random but the same in every run. What is known to be
refused, and in which words, stands in test_damaged_table.py.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbench.errors import ResultsError
from kbench.results import table
from kbench.results.case import Case
from kbench.results.row import NUMERIC_COLUMNS, Row, csv_header
from kbench.results.vocabulary import Role, Status

random_damage = settings(max_examples=200, derandomize=True, deadline=None, database=None)

AXES = ("M", "N", "approximate")


def good_rows() -> list[list[str]]:
    """A header and six rows: timed, failed over two lines, a control, a configuration with a comma in its name."""
    small, large = (Case("gelu", {"M": 64, "N": n, "approximate": "tanh"}, "float32") for n in (256, 4096))
    seen = {"timer": "do_bench", "cache": "cold", "device": "NVIDIA H200", "started_at": "2026-11-20T10:00:00+00:00"}
    timed = {"ms": 1 / 3, "round_ms": (0.25, 1 / 3, 0.5), "gbps": 2345.678, "samples": 80, "flags": ("noisy",), **seen}
    rows = [
        Row(case, *which, **timed)  # type: ignore[arg-type]
        for case in (small, large)
        for which in (("triton", ""), ("triton-row", "num_warps=4,num_stages=2"))
    ]
    rows.append(Row(small, "mine", status=Status.ERROR, reason="as older versions wrote it"))
    rows[-1].reason = 'ValueError: two\nlines, "quoted"'
    rows.append(Row(small, "copy", role=Role.CONTROL, **timed))  # type: ignore[arg-type]
    header = csv_header(AXES)
    return [header, *([cells[name] for name in header] for cells in (row.cells() for row in rows))]


def as_csv(rows: list[list[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode(errors="surrogatepass")


GOOD = as_csv(good_rows())

Read = Callable[[bytes], "pd.DataFrame | None"]


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Read:
    """Read a file with this content: a frame as `table.read_results` promises it, or None where it was refused properly."""
    path = tmp_path_factory.mktemp("hostile") / "results.csv"

    def read(content: bytes) -> pd.DataFrame | None:
        path.write_bytes(content)
        try:
            frame = table.read_results(path)
        except ResultsError as error:
            message = str(error)
            assert message.startswith(f"{path}:") and len(message.splitlines()) == 1 and message.isprintable()
            assert "; " in message and len(message) < len(str(path)) + 250
            return None
        assert list(frame.index) == sorted(set(frame.index))
        assert set(frame["status"]) <= {status.value for status in Status}
        assert (frame["session"] >= 0).all()
        assert all(frame[name].dtype == "float64" for name in NUMERIC_COLUMNS)
        assert all(float(part) is not None for cell in frame["round_ms"] if cell for part in cell.split(";"))
        return frame

    return read


BYTES = (b"", b"\0", b'"', b'""', b",", b"\n", b"\r", b"\r\n", b"\xff", b"\xc3", b"\xef\xbb\xbf", b";", b"-", b"nan")
NUMBERS = ("nan", "inf", "-1", "1e999", "1" + 400 * "0", 5000 * "9", "0x10", "1_000", "٣", " 8 ")
WORDS = ("", " ", "ok", "oom", "bf16", "operator", "line", "=cmd|' /C calc'!A0", "@SUM(1)", 200_000 * "x")
UNPRINTABLE = ("\0", "\ud800", "\r", "a\nb", '"', "\x1b[31m", "\u2028")
UGLY = (*NUMBERS, *WORDS, *UNPRINTABLE)
CELLS = st.sampled_from(UGLY) | st.text(max_size=20)


def test_undamaged(read: Read) -> None:
    frame = read(GOOD)
    assert frame is not None and len(frame) == 6 and frame.attrs["warnings"] == []


@pytest.mark.slow
@random_damage
@given(data=st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode(errors="surrogatepass")))
def test_anything(read: Read, data: bytes) -> None:
    assert read(data) is None
    read(GOOD + data)


@pytest.mark.slow
@random_damage
@given(
    edits=st.lists(
        st.tuples(st.integers(0, len(GOOD)), st.integers(0, 40), st.sampled_from(BYTES)), min_size=1, max_size=4
    )
)
def test_bytes(read: Read, edits: list[tuple[int, int, bytes]]) -> None:
    data = GOOD
    for place, gone, new in edits:
        data = data[:place] + new + data[place + gone :]
    read(data)


@pytest.mark.parametrize("column", csv_header(AXES))
def test_cells_that_are_known_to_be_ugly(read: Read, column: str) -> None:
    for cell in UGLY:
        damaged_cell(read, 1, column, cell)


@pytest.mark.slow
@random_damage
@given(st.integers(1, 6), st.sampled_from(csv_header(AXES)), CELLS)
def test_cells(read: Read, line: int, column: str, cell: str) -> None:
    damaged_cell(read, line, column, cell)


def damaged_cell(read: Read, line: int, column: str, cell: str) -> None:
    """It costs no row: it is refused, or every row is there."""
    rows = good_rows()
    rows[line][rows[0].index(column)] = cell
    frame = read(as_csv(rows))
    assert frame is None or len(frame) == 6


@pytest.mark.slow
@random_damage
@given(
    lines=st.lists(st.integers(0, 7 * 2 - 1), max_size=20),
    torn=st.integers(0, 300),
    glue=st.sampled_from([b"", b"\n", b"\r\n", b"\r", b"\n\n", b"\xef\xbb\xbf"]),
)
def test_lines(read: Read, lines: list[int], torn: int, glue: bytes) -> None:
    """Lines of two files of different versions in any order and number, the last one torn."""
    rows = good_rows()
    older = [row[:20] + row[21:] for row in rows]
    pieces = [as_csv([(rows + older)[line]]).removesuffix(b"\n") for line in lines]
    data = as_csv(rows[:1]) + glue.join(pieces)
    frame = read(data[: len(data) - torn])
    assert frame is None or len(frame) + len(frame.attrs["warnings"]) <= 1 + len(lines)


@pytest.mark.slow
@random_damage
@given(
    order=st.permutations(range(len(csv_header(AXES)))) | st.just(list(range(len(csv_header(AXES))))),
    names=st.dictionaries(
        st.integers(0, len(csv_header(AXES)) - 1), CELLS | st.sampled_from(csv_header(AXES)), max_size=2
    ),
    more=st.lists(CELLS, max_size=3),
)
def test_headers(read: Read, order: list[int], names: dict[int, str], more: list[str]) -> None:
    rows = [[row[place] for place in order] + more for row in good_rows()]
    for place, name in names.items():
        rows[0][place] = name
    frame = read(as_csv(rows))
    assert frame is None or len(frame) == 6


# -- the command line


def two_files_in_one(path: Path) -> None:
    path.write_bytes(2 * GOOD)


def binary(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 100)


def gigabyte(path: Path) -> None:
    path.write_bytes(GOOD)
    os.truncate(path, 1 << 30)


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_stray_quote(path: Path) -> None:
    path.write_bytes(GOOD.replace(b"triton-row,", b'"triton-row,', 1))


@pytest.mark.slow
@pytest.mark.parametrize("ugly", [two_files_in_one, binary, gigabyte, a_pipe, a_stray_quote])
def test_commands_refuse_in_one_line(
    kbench: Callable[..., object], tmp_path: Path, ugly: Callable[[Path], None]
) -> None:
    path = tmp_path / "ugly.csv"
    ugly(path)
    for command in (["compare", path, path], ["plot", path]):
        done = kbench(*command)
        assert done.returncode == 2
        assert done.stdout == ""
        [line] = done.stderr.splitlines()
        assert line.startswith(f"error: {path}:")


@pytest.mark.slow
def test_commands_read_formulas_and_numbers_without_end(kbench: Callable[..., object], tmp_path: Path) -> None:
    """None of it is wrong as text or as a number. What it means is a matter of what is asked."""
    rows = good_rows()
    at = rows[0].index
    rows[1][at("provider")] = "=cmd|' /C calc'!A0"
    for row, number in zip(rows[2:5], ["1e999", "-1", "nan"], strict=True):
        row[at("ms")] = row[at("gbps")] = number
    path = tmp_path / "odd.csv"
    path.write_bytes(as_csv(rows))
    for command in (["compare", path, path], ["plot", path]):
        done = kbench(*command)
        assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
