"""Finds and reads a results file: its rows and the lines they stand on. An error names the file, the line and what to do."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.errors import ResultsError
from kbench.results.case import DTYPE_ALIASES, Case
from kbench.results.cells import Kind, axis_kind, format_cell, is_plausible
from kbench.results.row import (
    COLUMNS,
    CONDITION_COLUMNS,
    IDENTITY_COLUMNS,
    LINE,
    NEEDED_COLUMNS,
    Row,
    axis_columns,
    csv_header,
)
from kbench.text.words import list_words

if TYPE_CHECKING:
    import pandas as pd

REPAIR = "repair or delete the line"

_MOVED_ASIDE = re.compile(r"\.\d{8}-\d{6}(-\d+)?\.")
"""A part of the name of the results of an earlier run."""


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
        return [row for row in self.rows if row.of_provider]

    @property
    def warnings(self) -> list[str]:
        if self.torn is None:
            return []
        return [f"{self.path}:{self.torn}: the last row is incomplete (an interrupted run?) and was left out"]

    def only(self, keeps: Sequence[bool]) -> Results:
        """Some of the rows: `keeps` says for each row whether it stays."""
        return replace(self, rows=list(compress(self.rows, keeps)), lines=list(compress(self.lines, keeps)))

    def frame(self) -> pd.DataFrame:
        """The rows as a frame: see `kbench.load`."""
        import pandas as pd

        index = pd.Index(list(self.lines), name=LINE, dtype="int64")
        columns = {}
        for name in csv_header(self.axes):
            values = [row.value(name) for row in self.rows]
            kind = COLUMNS[name].cells if name in COLUMNS else axis_kind(set(map(format_cell, values)))
            if kind.dtype == "str":
                values = list(map(format_cell, values))
            columns[name] = pd.Series(values, index, kind.dtype)
        frame = pd.DataFrame(columns, index)
        frame.attrs.update(path=str(self.path))
        return frame


def read_results(path: Path | str) -> Results:
    """The rows of a results file. Raises ResultsError, also if a session has the same row of a provider twice.

    Axes and scalars are integers, finite numbers or booleans, by what the cells of their column hold; choices are words.
    """
    path = Path(path)
    return results_of(path, *_records(path))


def results_of(
    path: Path, header: Sequence[str], lines: Sequence[int], records: Sequence[Sequence[str]], torn: int | None = None
) -> Results:
    """The rows of records, which are the cells of a line each. Raises as `read_results` does."""
    columns = dict(zip(header, zip(*records, strict=True), strict=True)) if records else {}
    results = Results(path, header, _rows(path, header, lines, columns) if records else [], lines, torn)
    _check_each_row_once(results)
    return results


def is_results_header(header: Sequence[str]) -> bool:
    """Whether these are the columns of a results file."""
    return {*NEEDED_COLUMNS} <= {*header}


def _records(path: Path) -> tuple[list[str], list[int], list[list[str]], int | None]:
    """The header, the line of each record, the records, and the line of a last record that is incomplete.

    A record is one line: kbench writes no line breaks into cells. So a stray quote takes no rows with it.
    """
    header, numbers, records = list[str](), list[int](), list[list[str]]()
    lines = _text(path).split("\n")
    for number, line in enumerate(lines, start=1):
        torn = number == len(lines) and bool(header)  # only the last line can lack its end
        try:
            cells = next(csv.reader([line], strict=True), [])
        except csv.Error as error:
            if torn:
                return header, numbers, records, number
            problem = "a quote opens here and does not close" if "end of data" in str(error) else error
            raise ResultsError(f"{path}:{number}: not readable as CSV ({problem}); {REPAIR}") from None
        if not any(map(str.strip, cells)):
            continue
        if not header:
            header = cells
            check_header(f"{path}:{number}", header)
        elif len(cells) < len(header) and torn:
            return header, numbers, records, number
        elif len(cells) != len(header):
            counts = f"{len(cells)} fields where the header has {len(header)}"
            raise ResultsError(f"{path}:{number}: {counts}; {REPAIR}")
        else:
            numbers.append(number)
            records.append(cells)
    if not header:
        raise ResultsError(f"{path}: the file is empty; run the sweep again")
    return header, numbers, records, None


def _text(path: Path) -> str:
    """The text of the file. A byte that is no text becomes a replacement character: a killed run may have torn one."""
    try:
        return path.read_text(encoding="utf-8-sig", errors="replace")
    except FileNotFoundError:
        raise ResultsError(f"{path}: no such file; `kbench run` writes results/<config>.csv") from None
    except OSError as error:
        raise ResultsError(f"{path}: cannot be read ({error.strerror}); check the path and its permissions") from None


def check_header(where: str, header: Sequence[str]) -> None:
    """Raises ResultsError if a column is missing or repeated, or if the axes are not between `params` and `dtype`."""
    if not is_results_header(header):
        lacks = list_words([name for name in NEEDED_COLUMNS if name not in header], 4)
        # a page, a git-lfs pointer
        problem = f"it begins with {','.join(header)[:40]!r} and has no column {lacks}"
        advice = "name a CSV that `kbench run` wrote, or restore what was removed from it"
        if len(header) == 1 and {";", "\t"} & {*header[0]}:
            advice = "save it with commas between the columns"
        raise ResultsError(f"{where}: not a kbench results file, {problem}; {advice}")
    first = [name for name in header if name in COLUMNS][: len(IDENTITY_COLUMNS) + 1]
    if first != [*IDENTITY_COLUMNS, "dtype"] or len(set(header)) < len(header):
        order = f"{', '.join(IDENTITY_COLUMNS)}, then the axes, then dtype"
        raise ResultsError(
            f"{where}: its columns are in another order, or one is there twice; kbench writes {order} first"
        )


def _rows(path: Path, header: Sequence[str], lines: Sequence[int], cells: Mapping[str, Sequence[str]]) -> list[Row]:
    axes = axis_columns(header)
    points = zip(*(_values(path, name, lines, cells[name], axis_kind(set(cells[name]))) for name in axes), strict=True)
    cases: dict[tuple[Any, ...], Case] = {}
    of_rows = []
    for identity in zip(cells["operator"], points if axes else [()] * len(lines), cells["dtype"], strict=True):
        if identity not in cases:
            operator, sizes, dtype = identity
            cases[identity] = Case(operator, dict(zip(axes, sizes, strict=True)), DTYPE_ALIASES.get(dtype, dtype))
        of_rows.append(cases[identity])
    names = [name for name in COLUMNS if name in cells and name not in ("operator", "dtype")]
    columns = [_values(path, name, lines, cells[name], COLUMNS[name].cells) for name in names]
    values = (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
    return [_row(f"{path}:{line}", case, row) for line, case, row in zip(lines, of_rows, values, strict=True)]


def _values(path: Path, name: str, lines: Sequence[int], cells: Sequence[str], kind: Kind) -> list[Any]:
    """The values of a column. Equal cells are read once."""
    values: dict[str, Any] = {}
    for line, cell in zip(lines, cells, strict=True):
        if cell not in values:
            try:
                values[cell] = kind.read(cell)
            except (ValueError, KeyError):
                shown = repr(cell if len(cell) <= 40 else cell[:37] + "...")
                raise ResultsError(f"{path}:{line}: {name} is {shown}, {kind.wrong}; {REPAIR}") from None
    return [values[cell] for cell in cells]


def _row(where: str, case: Case, values: dict[str, Any]) -> Row:
    try:
        row = Row(case, **values)
    except ValueError as error:
        raise ResultsError(f"{where}: {error}; {REPAIR}") from None
    if row.ms is not None and not is_plausible(row.ms):
        raise ResultsError(f"{where}: ms is {row.ms}, which is no time; {REPAIR}")
    return row


def _check_each_row_once(results: Results) -> None:
    """A session measures a row once. A file that was joined from others would count it twice."""
    first: dict[tuple[Any, ...], int] = {}
    for row, line in zip(results.rows, results.lines, strict=True):
        conditions = tuple(getattr(row, name) for name in CONDITION_COLUMNS)
        key = (row.case, row.provider, row.params, row.session, conditions)
        if row.of_provider and first.setdefault(key, line) != line:
            subject = f"{row.case.label} {row.configuration_name} session {row.session} is also on line {first[key]}"
            raise ResultsError(f"{results.path}:{line}: {subject}; keep one of the two lines")


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
        names = list_words(sorted(map(str, files)), 4)
        raise ResultsError(f"{path}: is a folder with {len(files)} results files; name one of them: {names}")
    return files[0]


def newest(folder: Path) -> Path:
    """The newest results file of a folder. Raises ResultsError if there is none."""
    return max(_results_files(folder), key=lambda path: (path.stat().st_mtime_ns, path.name))


def _results_files(folder: Path) -> list[Path]:
    """The results files of a folder, without runs moved aside and without other CSVs. Raises ResultsError if there is none."""
    candidates = [path for path in folder.glob("*.csv") if path.is_file() and not _MOVED_ASIDE.search(path.name)]
    others = [path for path in candidates if _is_other_csv(path)]
    if files := [path for path in candidates if path not in others]:
        return files
    other = f" ({others[0].name} is not one)" if others else ""
    raise ResultsError(f"{folder}: no results file here{other}; run `kbench run CONFIG` first, or name a CSV")


def _is_other_csv(path: Path) -> bool:
    """Whether a file has a header, and not that of results: `kbench compare --export csv=FILE` may have written it."""
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            header = next(csv.reader(file), [])
    except (OSError, csv.Error):  # whoever reads its rows says why
        return False
    return bool(header) and not is_results_header(header)
