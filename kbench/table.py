"""Reading a results CSV into pandas: typed columns, and errors that say where the file is wrong and what to do."""

from __future__ import annotations

import csv
import dataclasses
import io
import re
from pathlib import Path

import pandas as pd

from kbench.results import DTYPE_ALIASES, ResultsError, Row, Status, axis_columns, columns

NUMBERS = tuple(f.name for f in dataclasses.fields(Row) if str(f.type).startswith(("int", "float")))
"""Columns that hold numbers, as `Row` declares them. An empty cell is NaN: not known."""

_MOVED_ASIDE = re.compile(r"\.\d{8}-\d{6}(-\d+)?\.")


class TableError(ResultsError):
    """A results file that cannot be used."""


def read(path: Path | str) -> pd.DataFrame:
    """The rows of a results CSV, indexed by the line of the file on which each begins.

    Numbers are float64 (`session` int64), axes Int64 where they are integers, everything else text with "" for nothing.
    `attrs["path"]` is the file and `attrs["warnings"]` what was left out of it: a last line cut short by a killed run.
    Raises TableError.
    """
    path = Path(path)
    header, records = _records(path, _text(path))
    warnings = []
    if records and len(records[-1][1]) < len(header):
        line, _ = records.pop()
        warnings.append(f"{path}:{line}: the last row is incomplete (an interrupted run?) and was left out")
    for line, cells in records:
        if len(cells) != len(header):
            counts = f"{len(cells)} fields where the header has {len(header)}"
            raise TableError(f"{path}:{line}: {counts}; repair or delete the line")
    index = pd.Index([line for line, _ in records], name="line", dtype="int64")
    text = pd.DataFrame([cells for _, cells in records], index=index, columns=header, dtype="str")
    frame: pd.DataFrame = text.assign(**{name: _numbers(path, text[name]) for name in NUMBERS})
    frame = frame.assign(**{name: _axis(path, text[name]) for name in axis_columns(header)})
    frame["dtype"] = frame["dtype"].map(lambda name: DTYPE_ALIASES.get(name, name))
    frame["session"] = _sessions(path, frame["session"])
    _check_statuses(path, frame["status"])
    frame.attrs.update(path=str(path), warnings=warnings)
    return frame


def axes(frame: pd.DataFrame) -> list[str]:
    """The axis and choice columns of a frame that `read` returned."""
    return axis_columns(list(frame.columns))


def newest(folder: Path) -> Path:
    """The results file in a folder that was written last, earlier runs moved aside not counted. Raises TableError."""
    files = [path for path in folder.glob("*.csv") if path.is_file() and not _MOVED_ASIDE.search(path.name)]
    if not files:
        raise TableError(f"{folder}: no results here; make some with `kbench run CONFIG`, or name a CSV")
    return max(files, key=lambda path: (path.stat().st_mtime_ns, path.name))


def _text(path: Path) -> str:
    if path.is_dir():
        raise TableError(f"{path}: is a folder; name a results CSV in it")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise TableError(f"{path}: no such file; `kbench run` writes results/<config>.csv") from None
    except OSError as error:
        raise TableError(f"{path}: cannot be read ({error.strerror}); check its permissions") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:  # a character may have been cut in half with the last line
        text = data[: error.start].decode("utf-8-sig") if error.reason == "unexpected end of data" else "\0"
    if "\0" in text:
        raise TableError(f"{path}: not a text file; name a CSV that `kbench run` wrote")
    if not text.strip():
        raise TableError(f"{path}: the file is empty; run the sweep again")
    return text


def _records(path: Path, text: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The header, and every other record with the line it begins on (a quoted reason may span several)."""
    reader = csv.reader(io.StringIO(text, newline=""))
    records, line = [], 1
    try:
        for cells in reader:
            if cells:
                records.append((line, cells))
            line = reader.line_num + 1
    except csv.Error as error:
        raise TableError(f"{path}:{line}: not readable as CSV ({error}); repair or delete the line") from None
    (line, header), *rest = records
    missing = [name for name in columns([]) if name not in header]
    if missing:
        names = ", ".join(missing[:4]) + (f" and {len(missing) - 4} more" if len(missing) > 4 else "")
        what = f"not a kbench results file, it has no column {names}"
        raise TableError(f"{path}:{line}: {what}; name a CSV that `kbench run` wrote")
    if repeated := sorted({name for name in header if header.count(name) > 1}):
        raise TableError(f"{path}:{line}: column {repeated[0]} appears twice; repair the header")
    return header, rest


def _numbers(path: Path, text: pd.Series[str]) -> pd.Series[float]:
    # float() and not pandas' parser: it is exact to the last digit that kbench wrote
    numbers = []
    for line, cell in text.items():
        try:
            numbers.append(float(cell or "nan"))
        except ValueError:
            what = f"{text.name} is {cell!r}, not a number"
            raise TableError(f"{path}:{line}: {what}; repair or delete the line") from None
    result: pd.Series[float] = pd.Series(numbers, index=text.index, dtype="float64")
    return result


def _axis(path: Path, text: pd.Series[str]) -> pd.Series[int] | pd.Series[str]:
    """Sizes as Int64 (4096.0 is 4096), words as they are. A column that holds both has a damaged cell."""
    sizes = [_size(cell) for cell in text]
    if sizes and None not in sizes:
        return pd.Series(sizes, index=text.index, dtype="Int64")
    words = all(size is None for size in sizes)
    for line, cell, size in zip(text.index, text, sizes, strict=True):
        if not cell or (size is None and not words):
            raise TableError(f"{path}:{line}: axis {text.name} is {cell!r}; repair or delete the line")
    return text


def _size(cell: str) -> int | None:
    try:
        return int(cell.removesuffix(".0"))
    except ValueError:
        return None


def _sessions(path: Path, sessions: pd.Series[float]) -> pd.Series[int]:
    for line, session in sessions.items():
        if not session.is_integer():
            raise TableError(f"{path}:{line}: session is not a whole number; repair or delete the line")
    return sessions.astype("int64")


def _check_statuses(path: Path, statuses: pd.Series[str]) -> None:
    known = [status.value for status in Status]
    for line, status in statuses.items():
        if status not in known:
            raise TableError(f"{path}:{line}: unknown status {status!r}; kbench writes {', '.join(known)}")
