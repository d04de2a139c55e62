"""Results as a pandas frame: the columns of a CSV typed, and errors that say which cell is wrong and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from kbench.errors import ResultsError
from kbench.results.case import DTYPE_ALIASES
from kbench.results.columns import COLUMNS, LINE, OPTIONAL_COLUMNS, Kind, axis_columns
from kbench.results.csv_reader import check_header, records, shown
from kbench.results.vocabulary import Role, Status
from kbench.text.printable import reason

_MOVED_ASIDE = re.compile(r"\.\d{8}-\d{6}(-\d+)?\.")


def read(path: Path | str) -> pd.DataFrame:
    """The rows of a results CSV, indexed by the line of the file on which each begins.

    Numbers are float64 and may be NaN, infinite or negative; `session` is int64, axes are Int64 where they are integers.
    Everything else is text with "" for nothing: what names something is printable, `round_ms` has numbers between its
    semicolons. `attrs["path"]` is the file and `attrs["warnings"]` what was left out of it: a last line cut short by a
    killed run. Raises ResultsError.
    """
    path = Path(path)
    header, rows, warnings = _contents(path)
    lines = [line for line, _ in rows]
    index = pd.Index(lines, name=LINE, dtype="int64")
    texts = zip(*(cells for _, cells in rows), strict=True) if rows else [()] * len(header)
    data = {}
    for name, text in zip(header, texts, strict=True):
        rule = _RULES.get(name, _TEXT)
        if name in axis_columns(header):
            rule = _SIZE if any(map(_LIKE_SIZE.fullmatch, set(text))) else _WORD
        data[name] = pd.Series(_values(path, name, lines, text, rule), index, rule.dtype)
    for name in OPTIONAL_COLUMNS:
        if name not in data:
            data[name] = pd.Series(float("nan"), index, "float64")
    frame: pd.DataFrame = pd.DataFrame(data, index)
    frame.attrs.update(path=str(path), warnings=warnings)
    return frame


def axes(frame: pd.DataFrame) -> list[str]:
    """The axis and choice columns of a frame that `read` returned."""
    return axis_columns(list(frame.columns))


def parse_source(source: Path | str) -> tuple[str, Path]:
    """`new=runs/b.csv` is runs/b.csv called "new", unless a file has that very name; without a label that is ""."""
    label, equals, path = str(source).partition("=")
    if equals and label and path and not Path(source).exists():
        return label, Path(path)
    return "", Path(source)


def newest(folder: Path) -> Path:
    """The results file in a folder that was written last, earlier runs moved aside not counted. Raises ResultsError."""
    files = [path for path in folder.glob("*.csv") if path.is_file() and not _MOVED_ASIDE.search(path.name)]
    if not files:
        raise ResultsError(f"{folder}: no results here; make some with `kbench run CONFIG`, or name a CSV")
    return max(files, key=lambda path: (path.stat().st_mtime_ns, path.name))


# -- the shape of the file


def _contents(path: Path) -> tuple[list[str], list[tuple[int, list[str]]], list[str]]:
    """The header, the rows with the line each begins on, and a warning where the last one was cut short."""
    found = records(path)
    line, header = next(found, (0, []))
    if not header:
        raise ResultsError(f"{path}: the file is empty; run the sweep again")
    check_header(path, line, header)
    rows, warnings = list(found), []
    if rows and len(rows[-1][1]) < len(header):
        line, _ = rows.pop()
        warnings.append(f"{path}:{line}: the last row is incomplete (an interrupted run?) and was left out")
    for line, cells in rows:
        if cells[:1] == header[:1]:
            raise ResultsError(f"{path}:{line}: a second header; put what follows into a file of its own")
        if len(cells) != len(header):
            counts = f"{len(cells)} fields where the header has {len(header)}"
            raise ResultsError(f"{path}:{line}: {counts}; repair or delete the line")
    return header, rows, warnings


# -- columns


class _Rule(NamedTuple):
    """How the cells of a column are read: `parse` gives None for one that is wrong, which `wrong` says in words."""

    parse: Callable[[str], Any]
    wrong: str
    dtype: str


def _values(path: Path, name: str, lines: Sequence[int], cells: Sequence[str], rule: _Rule) -> list[Any]:
    """The cells as a rule reads them. Raises ResultsError for the first that is wrong."""
    values = {cell: rule.parse(cell) for cell in set(cells)}
    if None in values.values():
        line, cell = next((line, cell) for line, cell in zip(lines, cells, strict=True) if values[cell] is None)
        raise ResultsError(f"{path}:{line}: {name} is {shown(cell)}, {rule.wrong}; repair or delete the line")
    return [values[cell] for cell in cells]


def _number(cell: str) -> float | None:
    # float() and not pandas' parser: it is exact to the last digit that kbench wrote
    try:
        return float(cell or "nan")
    except ValueError:
        return None


def _numbers(cell: str) -> str | None:
    return cell if not cell or all(part and _number(part) is not None for part in cell.split(";")) else None


def _size(cell: str) -> int | None:
    """4096, and 4096.0 as pandas may have written it."""
    size = int(cell.partition(".")[0]) if _LIKE_SIZE.fullmatch(cell) and len(cell) < 24 else None
    return size if size is not None and -(2**63) <= size < 2**63 else None


def _session(cell: str) -> int | None:
    size = _size(cell)
    return size if size is not None and size >= 0 else None


def _label(cell: str) -> str | None:
    return cell if cell.isprintable() else None


def _name(cell: str) -> str | None:
    return _label(cell) or None


def _dtype(cell: str) -> str | None:
    return _name(DTYPE_ALIASES.get(cell, cell))


def _one_of(*words: str) -> _Rule:
    return _Rule({word: str(word) for word in words}.get, f"which is none of {', '.join(words)}", "str")


_LIKE_SIZE = re.compile(r"-?[0-9]+(\.0*)?")

_TEXT = _Rule(str, "", "str")
_WORD = _Rule(_name, "not a size or a word", "str")
_SIZE = _Rule(_size, "not a size", "Int64")
_NUMBER = _Rule(_number, "not a number", "float64")
_LABEL = _Rule(_label, "not printable text", "str")
_BY_KIND = {
    Kind.NAME: _Rule(_name, "not a name", "str"),
    Kind.WORD: _LABEL,
    Kind.TEXT: _Rule(reason, "", "str"),
    Kind.DTYPE: _Rule(_dtype, "not a name", "str"),
    Kind.ROLE: _one_of(*Role),
    Kind.STATUS: _one_of(*Status),
    Kind.FLAGS: _LABEL,
    Kind.SESSION: _Rule(_session, "not a session's number", "int64"),
    Kind.INTEGER: _NUMBER,
    Kind.NUMBER: _NUMBER,
    Kind.NUMBERS: _Rule(_numbers, "not numbers", "str"),
    Kind.BOOLEAN: _TEXT,
}
_RULES = {name: _BY_KIND[column.kind] for name, column in COLUMNS.items()}
