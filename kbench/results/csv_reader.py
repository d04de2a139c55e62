"""Reads the records of a CSV file and checks its header. The time and memory are bounded for any file.

kbench opens regular files only (a FIFO would block) and limits the length of a line. Every error names the line on which the
record begins.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from kbench import files
from kbench.errors import ResultsError
from kbench.results.row import LINE, OPTIONAL_COLUMNS, axis_columns, csv_header

MAX_BYTES = 64 * 2**20
"""A longer file is an error. This size holds 130,000 rows, the result of more than a day, and takes ten times the memory."""

MAX_LINES = 1_000_000
"""A file with more lines is an error. Blank lines take no memory, but they take time to read."""

MAX_RECORD_BYTES = 128 * 2**10
"""A longer record is an error, raised before the whole record is read. The records of kbench have a few hundred bytes. The
module csv has the same limit for a field."""

MAX_COLUMNS = 200
"""A file with more columns is an error. No operator needs as many, and some later steps are slower than linear in them."""

_COMMAS = len(csv_header([])) - len(OPTIONAL_COLUMNS) - 1
_BOM = b"\xef\xbb\xbf"


def records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The records of a file that are not blank, each with the line on which it begins. A quoted cell may span several lines.

    If the file ends inside quotes, because a run was killed, its last record is one cell. Raises ResultsError.
    """
    with _opened(path) as file:
        lines = _Lines(path, file)
        reader = csv.reader(lines, strict=True)
        while True:
            lines.begin_record()
            try:
                cells = next(reader, None)
            except csv.Error as error:
                if not lines.ended:
                    what = str(error).partition(" - ")[0]  # the rest is advice to programmers
                    raise lines.error(f"not readable as CSV ({what}); repair or delete the line") from None
                cells = ["".join(lines.record)]
            if cells is None:
                return
            if lines.hold_a_row():
                raise lines.error("a quote is open here and does not close before the next row; repair the line")
            if any(map(str.strip, cells)):
                yield lines.first, cells


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        with files.opened(path) as file:
            yield file
    except files.Unreadable as error:
        advice = (
            "name a results CSV in it" if path.is_dir() else "save its content to a regular file and name that file"
        )
        raise ResultsError(f"{path}: {error}; {advice}") from None
    except FileNotFoundError:
        raise ResultsError(f"{path}: no such file; `kbench run` writes results/<config>.csv") from None
    except OSError as error:
        raise ResultsError(f"{path}: cannot be read ({error.strerror}); check the path and its permissions") from None


@dataclass
class _Lines(Iterator[str]):
    """An iterator over the lines of a file for the module csv, which asks for a second line of a record only inside quotes.

    first   the number of the line on which the current record begins
    record  the lines of the current record read until now
    """

    path: Path
    file: BinaryIO
    first: int = 1
    record: list[str] = field(default_factory=list)
    ended: bool = False
    _line: int = 0
    _bytes: int = 0
    _room: int = 0

    def begin_record(self) -> None:
        self.first, self._room = self._line + 1, MAX_RECORD_BYTES
        self.record.clear()

    def __next__(self) -> str:
        data = self.file.readline(self._room + 1)
        if not data:
            self.ended = True
            raise StopIteration
        self._line += 1
        self._bytes += len(data)
        self._room -= len(data)
        text = self._decoded(data)
        if self._room < 0:
            what = f"the row that begins here is longer than {MAX_RECORD_BYTES >> 10} KiB"
            raise self.error(f"{what}; close its open quote, or delete the row")
        if self._line > MAX_LINES or self._bytes > MAX_BYTES:
            limit = f"{MAX_LINES:,} lines or {MAX_BYTES >> 20} MiB"
            raise ResultsError(f"{self.path}:{self._line}: the file is longer than {limit}; split it or name another")
        self.record.append(text)
        return text

    def _decoded(self, data: bytes) -> str:
        data = data.removeprefix(_BOM)  # concatenated files have one inside, too
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            if error.reason != "unexpected end of data":  # that reason means that the file ends inside a character
                raise self._not_text(data[error.start]) from None
            text = data[: error.start].decode()
        if "\0" in text:
            raise self._not_text(0)
        return text

    def _not_text(self, byte: int) -> ResultsError:
        where = f"{self.path}:{self._line}"
        return ResultsError(f"{where}: not a text file (byte 0x{byte:02x}); name a CSV that `kbench run` wrote")

    def hold_a_row(self) -> bool:
        """Whether a later line of the record looks like a row. A stray quote has then joined several rows into one record."""
        operator = self.record[0].split(",")[0] + "," if self.record else ""
        return any(line.startswith(operator) and line.count(",") >= _COMMAS for line in self.record[1:])

    def error(self, what: str) -> ResultsError:
        return ResultsError(f"{self.path}:{self.first}: {what}")


def check_header(path: Path, line: int, header: list[str]) -> None:
    """Raises ResultsError if a column of the header is missing, repeated, misnamed or in the wrong place."""
    where = f"{path}:{line}"
    known = [name for name in csv_header([]) if name in header or name not in OPTIONAL_COLUMNS]
    missing = [name for name in known if name not in header]
    if missing:
        names = ", ".join(missing[:4]) + (f" and {len(missing) - 4} more" if len(missing) > 4 else "")
        if len(missing) > len(known) // 2:
            what = f"not a kbench results file, it has no column {names}"
            raise ResultsError(f"{where}: {what}; name a CSV that `kbench run` wrote")
        raise ResultsError(
            f"{where}: it has no column {names}, because it was edited, or because another version of kbench wrote it; restore "
            "the column or run the sweep again"
        )
    if len(header) > MAX_COLUMNS:
        raise ResultsError(
            f"{where}: {len(header)} columns, more than kbench writes; name a CSV that `kbench run` wrote"
        )
    repeated, count = Counter(header).most_common(1)[0]
    if count > 1:
        raise ResultsError(f"{where}: column {shown(repeated)} appears twice; repair the header")
    ours = [name for name in header if name in known]
    if ours != known:
        found, wanted = next((here, right) for here, right in zip(ours, known, strict=True) if here != right)
        raise ResultsError(
            f"{where}: found column {found} at the place of column {wanted}; put the columns back into the order in which "
            "`kbench run` writes them"
        )
    for name in axis_columns(header):
        if not name or not name.isprintable():
            raise ResultsError(
                f"{where}: the name of an axis is empty or cannot be printed: {shown(name)}; repair the header"
            )
    if LINE in header:
        raise ResultsError(
            f"{where}: a column has the name `line`, which kbench uses for line numbers; rename the column"
        )


def header_fault(found: Sequence[str], wanted: Sequence[str]) -> str:
    """How the header of a file that a run continues differs from the header that the run writes."""
    missing = [name for name in wanted if name not in found]
    extra = [name for name in found if name not in wanted]
    if len(missing) == len(wanted):
        return "not a kbench results file"
    if missing or extra:
        what = f"it has no column {missing[0]}" if missing else f"it has a column {extra[0]}"
        return f"written by another version of kbench or for another operator: {what}"
    return "its columns are not in kbench's order, or its first line is incomplete"


def shown(cell: str) -> str:
    """A cell for an error message: in quotes, on one line, and cut after 40 characters."""
    return repr(cell if len(cell) <= 40 else cell[:37] + "...")
