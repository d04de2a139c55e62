"""Reads a results CSV into a pandas frame with typed columns. An error names the wrong cell and what to do."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from kbench.errors import ResultsError
from kbench.results.case import DTYPE_ALIASES, LIKE_NUMBER, configuration_name
from kbench.results.csv_reader import check_header, records, shown
from kbench.results.row import COLUMNS, CONDITION_COLUMNS, LINE, OPTIONAL_COLUMNS, axis_columns, csv_header
from kbench.results.vocabulary import Role, Status
from kbench.text.printable import safe_reason

_MOVED_ASIDE = re.compile(r"\.\d{8}-\d{6}(-\d+)?\.")


def read_results(path: Path | str) -> pd.DataFrame:
    """The rows of a results CSV, indexed by the line of the file on which each begins.

    Numbers are float64 and may be NaN, infinite or negative; `session` is int64. Axes and scalars are Int64, float64 (finite)
    or bool, by what their cells hold. All other columns are text, "" if empty. Names are printable. `round_ms` holds numbers
    separated by semicolons. `attrs["path"]` is the path of the file. `attrs["warnings"]` has a line if the last row is
    incomplete because a run was killed; that row is left out. Raises ResultsError, also if a session has the same row of a
    provider twice.
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
            rule = _axis_rule(set(text))
        data[name] = pd.Series(_values(path, name, lines, text, rule), index, rule.dtype)
    for name in OPTIONAL_COLUMNS:
        if name not in data:
            data[name] = _unknown(name, index)
    frame: pd.DataFrame = pd.DataFrame({name: data[name] for name in _in_order(list(data))}, index)
    _check_each_row_once(path, frame)
    frame.attrs.update(path=str(path), warnings=warnings)
    return frame


def _check_each_row_once(path: Path, frame: pd.DataFrame) -> None:
    """A session measures a row once. A file that was joined from others would count it twice."""
    providers = frame[frame["role"] == Role.PROVIDER]
    identity = ["operator", "provider", "params", *axes(frame), "dtype", "session", *CONDITION_COLUMNS]
    same = providers.groupby(identity, dropna=False, sort=False).ngroup()
    repeated = same[same.duplicated()]
    if repeated.empty:
        return
    line, row = repeated.index[0], frame.loc[repeated.index[0]]
    first = same.index[same == repeated.iloc[0]][0]
    sizes = " ".join(f"{name}={row[name]}" for name in axes(frame))
    what = f"{row['operator']} {sizes} {row['dtype']} {configuration_name(row['provider'], row['params'])}"
    also = f"{path}:{line}: {what} session {row['session']} is also on line {first}"
    if row["case_hash"] != frame.loc[first, "case_hash"]:
        raise ResultsError(
            f"{also}, with another case_hash: the two lines are of two versions of the operator, or a column of its sizes is "
            "missing; keep the lines of one version, or restore the column"
        )
    raise ResultsError(f"{also}; delete one of the two lines")


def _unknown(name: str, index: pd.Index) -> pd.Series[Any]:
    """A column that a file of an earlier version lacks."""
    if COLUMNS[name].kind in ("number", "integer"):
        return pd.Series(float("nan"), index, "float64")
    return pd.Series("", index, "str")


def _in_order(names: Sequence[str]) -> list[str]:
    """The columns in the order in which kbench writes them. Columns of other programs come last."""
    known = [name for name in csv_header(axis_columns(names)) if name in names]
    return [*known, *(name for name in names if name not in known)]


def axes(frame: pd.DataFrame) -> list[str]:
    """The columns of axes, scalars and choices of a frame that `read_results` returned."""
    return axis_columns(list(frame.columns))


def parse_source(source: Path | str) -> tuple[str, Path]:
    """The label and the path of an argument: `new=runs/b.csv` is runs/b.csv with the label "new". An argument without a label,
    or one that is itself the name of a file, has the label ""."""
    label, equals, path = str(source).partition("=")
    if equals and label and path and not Path(source).exists():
        return label, results_file(Path(path))
    return "", results_file(Path(source))


def results_file(path: Path) -> Path:
    """The path of a results file, or the only results file of the folder that the path names: `--out` makes folders. Raises
    ResultsError for a folder with none or several."""
    if not path.is_dir():
        return path
    files = _results_files(path)
    if len(files) > 1:
        names = ", ".join(str(file) for file in sorted(files))
        raise ResultsError(f"{path}: is a folder with {len(files)} results files; name one of them: {names}")
    return files[0]


def newest(folder: Path) -> Path:
    """The newest results file of a folder. Raises ResultsError if there is none."""
    return max(_results_files(folder), key=lambda path: (path.stat().st_mtime_ns, path.name))


def _results_files(folder: Path) -> list[Path]:
    """The results files of a folder, without earlier runs that were moved aside and without other CSVs. Raises ResultsError
    if there is none."""
    files = [
        path
        for path in folder.glob("*.csv")
        if path.is_file() and not _MOVED_ASIDE.search(path.name) and not _is_other_csv(path)
    ]
    if not files:
        raise ResultsError(f"{folder}: no results file here; run `kbench run CONFIG` first, or name a CSV")
    return files


def _is_other_csv(path: Path) -> bool:
    """Whether a file has a header, and not that of results: `kbench compare --export csv=FILE` may have written it."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            names = file.readline().replace('"', "").strip().split(",")
    except OSError:  # whoever reads its rows says why
        return False
    return names != [""] and not {"provider", "status"} <= set(names)


# -- rows and their lengths


def _contents(path: Path) -> tuple[list[str], list[tuple[int, list[str]]], list[str]]:
    """The header, the rows with the line on which each begins, and a warning if the last row is incomplete."""
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
            raise ResultsError(f"{path}:{line}: a second header; move it and the rows below it to another file")
        if len(cells) != len(header):
            counts = f"{len(cells)} fields where the header has {len(header)}"
            raise ResultsError(f"{path}:{line}: {counts}; repair or delete the line")
    return header, rows, warnings


# -- columns


class _Rule(NamedTuple):
    """How to read the cells of a column. `parse` returns None for a wrong cell; `wrong` is the error message for it."""

    parse: Callable[[str], Any]
    wrong: str
    dtype: str


def _values(path: Path, name: str, lines: Sequence[int], cells: Sequence[str], rule: _Rule) -> list[Any]:
    """The values of the cells of a column. Raises ResultsError for the first wrong cell."""
    values = {cell: rule.parse(cell) for cell in set(cells)}
    if None in values.values():
        line, cell = next((line, cell) for line, cell in zip(lines, cells, strict=True) if values[cell] is None)
        raise ResultsError(f"{path}:{line}: {name} is {shown(cell)}, {rule.wrong}; repair or delete the line")
    return [values[cell] for cell in cells]


def _axis_rule(cells: Collection[str]) -> _Rule:
    """How to read an axis, a scalar or a choice. kbench writes integers without a point, and other numbers with a point or an
    exponent, so the cells tell what they are. A choice cannot have words that read as numbers or booleans."""
    for like, rule in ((_LIKE_INTEGER, _SIZE), (LIKE_NUMBER, _SCALAR), (_LIKE_FLAG, _FLAG)):
        if any(map(like.fullmatch, cells)):
            return rule
    return _WORD


def _number(cell: str) -> float | None:
    # float() reads every digit that kbench wrote; the parser of pandas may round the last one
    try:
        return float(cell or "nan")
    except ValueError:
        return None


def _numbers(cell: str) -> str | None:
    return cell if not cell or all(part and _number(part) is not None for part in cell.split(";")) else None


def _size(cell: str) -> int | None:
    """An integer from `4096`, or from `4096.0` as pandas may write it; None for any other text."""
    size = int(cell.partition(".")[0]) if _LIKE_SIZE.fullmatch(cell) and len(cell) < 24 else None
    return size if size is not None and -(2**63) <= size < 2**63 else None


def _scalar(cell: str) -> float | None:
    number = float(cell) if LIKE_NUMBER.fullmatch(cell) else math.inf
    return number if math.isfinite(number) else None


def _flag(cell: str) -> bool | None:
    return {"true": True, "false": False}.get(cell.lower())  # spreadsheets write TRUE


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
    return _Rule({word: str(word) for word in words}.get, f"which is not one of {', '.join(words)}", "str")


_LIKE_SIZE = re.compile(r"-?[0-9]+(\.0*)?")
_LIKE_INTEGER = re.compile(r"-?[0-9]+")
_LIKE_FLAG = re.compile("true|false", re.IGNORECASE)

_TEXT = _Rule(str, "", "str")
_WORD = _Rule(_name, "not a size or a word", "str")
_SIZE = _Rule(_size, "not a size", "Int64")
_SCALAR = _Rule(_scalar, "not a finite number", "float64")
_FLAG = _Rule(_flag, "neither True nor False", "bool")
_NUMBER = _Rule(_number, "not a number", "float64")
_LABEL = _Rule(_label, "not printable text", "str")
_BY_KIND = {
    "text": _LABEL,
    "role": _one_of(*Role),
    "status": _one_of(*Status),
    "words": _LABEL,
    "count": _Rule(_session, "not a session number", "int64"),
    "integer": _NUMBER,
    "number": _NUMBER,
    "numbers": _Rule(_numbers, "not numbers", "str"),
    "boolean": _TEXT,
}
_NAME = _Rule(_name, "not a name", "str")
_RULES = {name: _BY_KIND[column.kind] for name, column in COLUMNS.items()} | {
    "operator": _NAME,
    "provider": _NAME,
    "dtype": _Rule(_dtype, "not a name", "str"),
    "reason": _Rule(safe_reason, "", "str"),
}
