"""The cells of a results file: what the columns of each kind hold, as text, as values of a row, and in a frame."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kbench.errors import UsageError
from kbench.results.case import LIKE_NUMBER
from kbench.results.vocabulary import Role, Status

PLAUSIBLE = (1e-9, 1e9)
"""The bounds of plausible times in ms and speeds in GB/s: a picosecond, eleven days."""

MARGIN = 0.02
"""The smallest change of a time that matters, as a share, where the user gives no other."""


def parse_share(option: str, value: float | str) -> float:
    """The share that `5%` or `0.05` means, also as a number. Raises UsageError."""
    text = str(value)
    with suppress(ValueError):
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        if 0 <= share < 1:
            return share
    raise UsageError(f"{option} {text!r} is not a share between 0% and 100%; write 2% or 0.02")


def is_plausible(number: float) -> bool:
    return PLAUSIBLE[0] < number < PLAUSIBLE[1]


@dataclass(frozen=True)
class Kind:
    """What cells hold.

    name   for the documentation
    read   the value of a cell. Raises ValueError or KeyError for a wrong one
    wrong  what is wrong with such a cell
    dtype  of a column of a frame
    """

    name: str
    read: Callable[[str], Any]
    wrong: str = ""
    dtype: str = "str"


def size(cell: str) -> int:
    """An integer from `4096`, or from `4096.0` as pandas may write it."""
    match = re.fullmatch(r"(-?[0-9]{1,19})(\.0*)?", cell)
    if not match:
        raise ValueError
    return int(match[1])


def _count(cell: str) -> int:
    if (number := size(cell)) < 0:
        raise ValueError
    return number


def _finite(cell: str) -> float:
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


def _word(cell: str) -> str:
    if not cell:
        raise ValueError
    return cell


KINDS = {
    "str": Kind("text", str),
    "Role": Kind("role", Role, f"which is not one of {', '.join(Role)}"),
    "Status": Kind("status", Status, f"which is not one of {', '.join(Status)}"),
    "int": Kind("count", _count, "not a session number", "int64"),
    "int | None": Kind("integer", lambda cell: size(cell) if cell else None, "not a whole number", "Int64"),
    "float | None": Kind("number", _number, "not a number", "float64"),
    "bool | None": Kind("boolean", lambda cell: _flag(cell) if cell else None, "neither True nor False", "boolean"),
    "tuple[str, ...]": Kind("words", lambda cell: tuple(filter(None, cell.split(";")))),
    "tuple[float, ...]": Kind("numbers", _times, "not times", "object"),
}
"""The kinds of columns by the type of their field in `Row`. `words` and `numbers` stand between semicolons."""

_AXES = (
    (re.compile("-?[0-9]+"), Kind("size", size, "not a size", "Int64")),
    (LIKE_NUMBER, Kind("number", _finite, "not a finite number", "float64")),
    (re.compile("true|false", re.IGNORECASE), Kind("flag", _flag, "neither True nor False", "bool")),
)


def axis_kind(cells: Collection[str]) -> Kind:
    """The kind of an axis, a scalar or a choice. kbench writes integers without a point, and other numbers with a point or an
    exponent, so the cells tell what they are. A choice cannot have words that read as numbers or booleans."""
    for like, kind in _AXES:
        if any(map(like.fullmatch, cells)):
            return kind
    return Kind("word", _word, "not a size or a word")


_UNREADABLE = {0: "\\0", ord("\r"): "\\r"}
"""Characters that a message may contain and a CSV cannot: older csv modules do not quote a lone carriage return."""


def format_cell(value: Any) -> str:
    """A value as CSV text: numbers with full precision, several values between semicolons, "" for "not known"."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, tuple):
        return ";".join(map(format_cell, value))
    return repr(value) if isinstance(value, float) else str(value).translate(_UNREADABLE)
