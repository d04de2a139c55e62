"""Reads a results file: its rows, and the lines on which they stand. An error names the file, the line and what to do."""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

from kbench.errors import ResultsError
from kbench.results.case import DTYPE_ALIASES, LIKE_NUMBER, Case
from kbench.results.row import (
    COLUMNS,
    CONDITION_COLUMNS,
    IDENTITY_COLUMNS,
    OUTCOME_COLUMNS,
    Row,
    axis_columns,
    csv_header,
    is_plausible,
)
from kbench.results.vocabulary import Role, Status


@dataclass(frozen=True)
class Results:
    """The rows of a results file, or some of them.

    header  the names of its columns
    rows    controls included, in the order of the file
    lines   the line of the file on which each row stands
    torn    the line of a last row that is incomplete, because a run was killed; that row is left out
    """

    path: Path
    header: Sequence[str]
    rows: Sequence[Row]
    lines: Sequence[int]
    torn: int | None = None

    @cached_property
    def axes(self) -> tuple[str, ...]:
        """The columns of axes, scalars and choices."""
        return axis_columns(self.header)

    @property
    def provider_rows(self) -> list[Row]:
        """The rows without those of controls."""
        return [row for row in self.rows if row.role is Role.PROVIDER]

    @property
    def warnings(self) -> list[str]:
        if self.torn is None:
            return []
        return [f"{self.path}:{self.torn}: the last row is incomplete (an interrupted run?) and was left out"]

    def only(self, kept: Sequence[bool]) -> Results:
        """Some of the rows: `kept` says for each row whether it stays."""
        return replace(self, rows=list(compress(self.rows, kept)), lines=list(compress(self.lines, kept)))


def read_results(path: Path | str) -> Results:
    """The rows of a results file. Raises ResultsError, also if a session has the same row of a provider twice.

    Axes and scalars are integers, finite numbers or booleans, by what the cells of their column hold; choices are words.
    """
    path = Path(path)
    header, lines, records, torn = _records(path)
    cells: dict[str, Sequence[str]] = dict(zip(header, zip(*records, strict=True), strict=True)) if records else {}
    rows = _rows(path, axis_columns(header), lines, cells) if records else []
    results = Results(path, header, rows, lines, torn)
    _check_each_row_once(results)
    return results


def is_results_header(header: Sequence[str]) -> bool:
    """Whether these are the columns of a results file, or of one that was edited."""
    return "params" in header and "dtype" in header and len(_missing(header)) <= len(COLUMNS) // 4


# -- the records of the file


def _records(path: Path) -> tuple[list[str], list[int], list[list[str]], int | None]:
    """The header, the line of each record, the records, and the line of a last record that is incomplete.

    A record is one line: kbench writes no line breaks into cells. So a stray quote takes no rows with it.
    """
    header: list[str] = []
    lines: list[int] = []
    records: list[list[str]] = []
    text = _text(path)
    every = text.split("\n")
    for number, line in enumerate(every, start=1):
        unended = number == len(every)
        try:
            cells = next(csv.reader([line], strict=True), [])
        except csv.Error as error:
            if unended and header:
                return header, lines, records, number
            what = "a quote opens here and does not close" if "end of data" in str(error) else error
            raise ResultsError(f"{path}:{number}: not readable as CSV ({what}); repair or delete the line") from None
        if not any(map(str.strip, cells)):
            continue
        if not header:
            header = cells
            _check_header(path, number, header)
            continue
        if len(cells) < len(header) and unended:
            return header, lines, records, number
        if len(cells) != len(header):
            counts = f"{len(cells)} fields where the header has {len(header)}"
            raise ResultsError(f"{path}:{number}: {counts}; repair or delete the line")
        if cells == header:
            raise ResultsError(f"{path}:{number}: a second header; move it and the rows below it to another file")
        lines.append(number)
        records.append(cells)
    if not header:
        raise ResultsError(f"{path}: the file is empty; run the sweep again")
    return header, lines, records, None


def _text(path: Path) -> str:
    """The text of the file. A byte that is no text becomes a replacement character: a killed run may have torn one."""
    try:
        return path.read_text(encoding="utf-8-sig", errors="replace")
    except FileNotFoundError:
        raise ResultsError(f"{path}: no such file; `kbench run` writes results/<config>.csv") from None
    except IsADirectoryError:
        raise ResultsError(f"{path}: is a folder; name a results CSV in it") from None
    except OSError as error:
        raise ResultsError(f"{path}: cannot be read ({error.strerror}); check the path and its permissions") from None


def _missing(header: Sequence[str]) -> list[str]:
    return [name for name in csv_header() if name not in header and not COLUMNS[name].optional]


def _check_header(path: Path, line: int, header: Sequence[str]) -> None:
    """Raises ResultsError if a column is missing or repeated, or if the axes are not between `params` and `dtype`."""
    where, missing = f"{path}:{line}", _missing(header)
    names = ", ".join(missing[:4]) + (f" and {len(missing) - 4} more" if len(missing) > 4 else "")
    if not is_results_header(header):
        what = f"not a kbench results file, it has no column {names}"
        raise ResultsError(f"{where}: {what}; name a CSV that `kbench run` wrote")
    if missing:
        raise ResultsError(
            f"{where}: it has no column {names}, because it was edited, or because another version of kbench wrote it; restore "
            "the column or run the sweep again"
        )
    repeated, count = Counter(header).most_common(1)[0]
    if count > 1:
        raise ResultsError(f"{where}: column {repeated!r} appears twice; repair the header")
    known = [name for name in header if name in COLUMNS]
    if known[: len(IDENTITY_COLUMNS) + 1] != [*IDENTITY_COLUMNS, "dtype"]:
        wanted = f"{', '.join(IDENTITY_COLUMNS)}, then the axes, then dtype"
        raise ResultsError(f"{where}: its columns are in another order; kbench writes {wanted} first")


# -- the rows


class _Rule(NamedTuple):
    """How to read the cells of a column. `parse` raises ValueError for a wrong cell; `wrong` says what is wrong with it."""

    parse: Callable[[str], Any]
    wrong: str = ""


def _rows(path: Path, axes: Sequence[str], lines: Sequence[int], cells: dict[str, Sequence[str]]) -> list[Row]:
    def values(name: str, rule: _Rule) -> list[Any]:
        own = cells.get(name) or [""] * len(lines)  # files of earlier versions lack optional columns
        known: dict[str, Any] = {}
        for line, cell in zip(lines, own, strict=True):
            if cell not in known:
                known[cell] = _parsed(f"{path}:{line}: {name}", cell, rule)
        return [known[cell] for cell in own]

    of_axes = [values(name, _axis_rule(set(cells[name]))) for name in axes]
    names = zip(
        cells["operator"], zip(*of_axes, strict=True) if axes else [()] * len(lines), cells["dtype"], strict=True
    )
    cases: dict[tuple[Any, ...], Case] = {}
    of_rows = []
    for operator, sizes, dtype in names:
        identity = (operator, sizes, dtype)
        if identity not in cases:
            cases[identity] = Case(operator, dict(zip(axes, sizes, strict=True)), DTYPE_ALIASES.get(dtype, dtype))
        of_rows.append(cases[identity])
    columns = [values(name, _RULES[COLUMNS[name].kind]) for name in ("provider", "params", *OUTCOME_COLUMNS)]
    return [_row(f"{path}:{line}", *own) for line, *own in zip(lines, of_rows, *columns, strict=True)]


def _parsed(where: str, cell: str, rule: _Rule) -> Any:
    try:
        return rule.parse(cell)
    except (ValueError, KeyError):
        shown = repr(cell if len(cell) <= 40 else cell[:37] + "...")
        raise ResultsError(f"{where} is {shown}, {rule.wrong}; repair or delete the line") from None


def _row(where: str, case: Case, *values: Any) -> Row:
    try:
        row = Row(case, *values)
    except ValueError as error:
        raise ResultsError(f"{where}: {error}; repair or delete the line") from None
    if row.ms is not None and not is_plausible(row.ms):
        raise ResultsError(f"{where}: ms is {row.ms}, which is no time; repair or delete the line")
    return row


def _check_each_row_once(results: Results) -> None:
    """A session measures a row once. A file that was joined from others would count it twice."""
    lines: dict[tuple[Any, ...], tuple[int, Row]] = {}
    for row, line in zip(results.rows, results.lines, strict=True):
        if row.role is not Role.PROVIDER:
            continue
        conditions = [getattr(row, name) for name in CONDITION_COLUMNS]
        first, other = lines.setdefault((row.case, row.provider, row.params, row.session, *conditions), (line, row))
        if first == line:
            continue
        what = f"{row.case.label} {row.configuration_name} session {row.session} is also on line {first}"
        remedy = "; delete one of the two lines"
        if row.case_hash != other.case_hash:
            remedy = (
                ", with another case_hash: the two lines are of two versions of the operator, or a column of its sizes is "
                "missing; keep the lines of one version, or restore the column"
            )
        raise ResultsError(f"{results.path}:{line}: {what}{remedy}")


# -- the cells


def _axis_rule(cells: Collection[str]) -> _Rule:
    """How to read an axis, a scalar or a choice. kbench writes integers without a point, and other numbers with a point or an
    exponent, so the cells tell what they are. A choice cannot have words that read as numbers or booleans."""
    for like, rule in ((_LIKE_INTEGER, _SIZE), (LIKE_NUMBER, _SCALAR), (_LIKE_FLAG, _FLAG)):
        if any(map(like.fullmatch, cells)):
            return rule
    return _WORD


_LIKE_INTEGER = re.compile(r"-?[0-9]+")
_LIKE_SIZE = re.compile(r"(-?[0-9]{1,19})(\.0*)?")
_LIKE_FLAG = re.compile("true|false", re.IGNORECASE)


def _size(cell: str) -> int:
    """An integer from `4096`, or from `4096.0` as pandas may write it."""
    if not (match := _LIKE_SIZE.fullmatch(cell)):
        raise ValueError
    return int(match[1])


def _count(cell: str) -> int:
    if (size := _size(cell)) < 0:
        raise ValueError
    return size


def _integer(cell: str) -> int | None:
    return _size(cell) if cell else None


def _scalar(cell: str) -> float:
    number = float(cell) if LIKE_NUMBER.fullmatch(cell) else math.inf
    if not math.isfinite(number):
        raise ValueError
    return number


def _number(cell: str) -> float | None:
    number = float(cell or "nan")
    return None if math.isnan(number) else number


def _times(cell: str) -> tuple[float, ...]:
    times = tuple(map(float, cell.split(";"))) if cell else ()
    if not all(map(is_plausible, times)):
        raise ValueError
    return times


def _flag(cell: str) -> bool:
    return {"true": True, "false": False}[cell.lower()]  # spreadsheets write TRUE


def _boolean(cell: str) -> bool | None:
    return _flag(cell) if cell else None


def _words(cell: str) -> tuple[str, ...]:
    return tuple(word for word in cell.split(";") if word)


def _word(cell: str) -> str:
    if not cell:
        raise ValueError
    return cell


_WORD = _Rule(_word, "not a size or a word")
_SIZE = _Rule(_size, "not a size")
_SCALAR = _Rule(_scalar, "not a finite number")
_FLAG = _Rule(_flag, "neither True nor False")
_RULES = {
    "text": _Rule(str),
    "role": _Rule(Role, f"which is not one of {', '.join(Role)}"),
    "status": _Rule(Status, f"which is not one of {', '.join(Status)}"),
    "words": _Rule(_words),
    "count": _Rule(_count, "not a session number"),
    "integer": _Rule(_integer, "not a whole number"),
    "number": _Rule(_number, "not a number"),
    "numbers": _Rule(_times, "not times"),
    "boolean": _Rule(_boolean, "neither True nor False"),
}
"""How to read the cells of a column, by its kind."""
