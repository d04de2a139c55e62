"""Choosing rows by what was measured: `--where 'dtype=bf16,N>=4k,provider=triton*|cuda'`.

A term is a column, one of `= != < <= > >=`, and one or more values: `N=1024,4096`. A comma or `|` separates values. A comma
also separates terms, which must all hold: the text after a comma is a new term if it contains a comparison, and otherwise one
more value. A comma inside brackets belongs to the name of a configuration. Sizes may end in k, M or G (powers of 1024). A
scalar takes numbers such as 1e-6, or true and false. In words, `*` stands for any characters and `?` for one; brackets have no
special meaning. The rows of a file without the column `mode` are forward. kbench never evaluates a term as code.
"""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import pandas as pd
from pandas.api.types import is_bool_dtype, is_float_dtype, is_integer_dtype

from kbench.errors import UsageError
from kbench.results import table
from kbench.results.case import COMMA_OUTSIDE, DTYPE_ALIASES, FORWARD, LIKE_NUMBER, configuration_name
from kbench.results.row import CONDITION_COLUMNS, IDENTITY_COLUMNS
from kbench.results.vocabulary import Role
from kbench.text.printable import NAME_LIMIT

PROVIDER_COLUMNS = ("provider", "params", "status", "flags")
"""Terms on these columns choose among the providers of a case and keep its controls, unless another term names `role`."""

FILTERABLE = ("role", "session", "status", "flags", *CONDITION_COLUMNS, "model", "weight")
"""The columns that a term may name in addition to the axes."""

JOINED_COLUMNS = ("flags", "model")
"""A cell of these columns may hold several names, between semicolons. Each of them matches the cell."""

MODE = "mode"
"""The axis that a term may name also if the file lacks it. All rows are then forward."""

ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

_TERM = re.compile(r"\s*([^\s=!<>|\[]+)\s*(==?|!=|<=?|>=?)\s*(?![=!<>])(.*)", re.DOTALL)
"""The name of a column contains no bracket, so `row[num_warps=4]` is a value and not a term."""

_SIZE = re.compile(r"(-?[0-9]{1,30})([kmg]?)", re.IGNORECASE)
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}


@dataclass(frozen=True)
class Term:
    """One condition: the text that the user wrote, and its parts. `comparison` is `=`, `!=` or a key of ORDER."""

    text: str
    column: str
    comparison: str
    values: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Term:
        match = _TERM.fullmatch(text)
        if not match:
            raise _error(
                text, "not a condition; write one like N=1024,4096 or N>=4k; the comparisons are = != < <= > >="
            )
        column, comparison, values = match.groups()
        found = tuple(value.strip() for value in re.split(rf"\||{COMMA_OUTSIDE.pattern}", values))
        if comparison in ORDER and len(found) > 1:
            raise _error(text, f"several values after {comparison}; give one")
        return cls(text.strip(), column, comparison.replace("==", "="), found)

    def holds(self, frame: pd.DataFrame) -> pd.Series[bool]:
        """Whether the condition holds, for each row of a frame. The frame must have the column, if it is not MODE. Raises
        UsageError for a value that the column cannot have."""
        column = _column(frame, self.column)
        if is_integer_dtype(column):
            matches = self._matches_number(self.size)
        elif is_float_dtype(column):
            matches = self._matches_number(self._number)
        else:
            matches = self._matches_flag() if is_bool_dtype(column) else self._matches_word()
        cells = _cells(frame, self.column)
        verdicts = {cell: matches(cell) for cell in set(cells)}
        return pd.Series([verdicts[cell] for cell in cells], frame.index, dtype="bool")

    def _matches_number(self, read: Callable[[str], float]) -> Callable[[Any], bool]:
        numbers = [read(value) for value in self.values]
        if order := ORDER.get(self.comparison):
            return lambda cell: order(cell, numbers[0])
        return lambda cell: (cell in numbers) == (self.comparison == "=")

    def _number(self, value: str) -> float:
        if _SIZE.fullmatch(value):
            return self.size(value)
        if not LIKE_NUMBER.fullmatch(value):
            raise _error(self.text, f"{_shown(value)} is not a number; write one like 0.1 or 1e-6")
        return float(value)

    def _matches_flag(self) -> Callable[[Any], bool]:
        if self.comparison in ORDER:
            raise _error(self.text, f"{self.column} holds only true and false, and these have no order; use = or !=")
        flags = []
        for value in self.values:
            if value.lower() not in ("true", "false"):
                raise _error(self.text, f"{_shown(value)} is neither true nor false")
            flags.append(value.lower() == "true")
        return lambda cell: (cell in flags) == (self.comparison == "=")

    def size(self, value: str) -> int:
        """The whole number that a value such as `4096` or `4k` means. Raises UsageError."""
        match = _SIZE.fullmatch(value)
        if not match:
            raise _error(self.text, f"{_shown(value)} is not a whole number; write one like 4096 or 4k")
        return int(match[1]) * _UNITS[match[2].lower()]

    def _matches_word(self) -> Callable[[Any], bool]:
        if self.comparison in ORDER:
            raise _error(self.text, f"{self.column} holds words, which have no order; use = or !=")
        patterns = [value.replace("[", "[[]") for value in self.values]

        def matches(cell: Any) -> bool:
            found = any(fnmatchcase(word, pattern) for word in _spellings(self.column, cell) for pattern in patterns)
            return found == (self.comparison == "=")

        return matches


@dataclass(frozen=True)
class RowFilter:
    """Conditions that must all hold."""

    terms: tuple[Term, ...]

    @classmethod
    def parse(cls, text: str) -> RowFilter:
        """The conditions in a text, separated by commas; no conditions for "". Raises UsageError."""
        texts: list[str] = []
        for part in COMMA_OUTSIDE.split(text) if text.strip() else ():
            if texts and part.strip() and not _like_a_term(part):
                texts[-1] += f",{part}"
            else:
                texts.append(part)
        return cls(tuple(map(Term.parse, texts)))

    def select(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The chosen rows of a frame from `table.read_results`, with the same attrs. If there are none, `nothing` says why.

        Raises UsageError for a column that the frame does not have, and for a value that its column cannot have.
        """
        self._check_columns(frame)
        keep = pd.Series(True, frame.index)
        for term in self.terms if len(frame) else ():
            holds = term.holds(frame)
            keep &= holds | ~self._chooses_among(frame) if term.column in PROVIDER_COLUMNS else holds
        chosen: pd.DataFrame = frame[keep]
        return chosen

    def nothing(self, frame: pd.DataFrame) -> str:
        """One line that says why `select` keeps no provider: the term that no row meets, and the values that rows have."""
        path, rows, met = frame.attrs["path"], frame[self._chooses_among(frame)], ""
        for term in self.terms if len(rows) else ():
            chosen = rows[term.holds(rows)]
            if chosen.empty:
                values = {"" if cell != cell else cell for cell in _cells(rows, term.column)}  # NaN: an empty cell
                if term.column in JOINED_COLUMNS:
                    values = {name for cell in values for name in cell.split(";")}
                there = f"{term.column} " + (
                    f"is one of {_few(values)}" if values != {""} else "is empty in all of them"
                )
                if term.column not in rows:
                    there = f"the file has no column {MODE}, so its rows are {FORWARD}"
                return f"{path}: no row has {term.text}{met and f' among those with {met}'}; {there}"
            rows, met = chosen, f"{met}, {term.text}" if met else term.text
        return f"{path}: the file has no row of any provider{met and f' with {met}'}; run the sweep again or choose other rows"

    def _chooses_among(self, frame: pd.DataFrame) -> pd.Series[bool]:
        """The rows that terms on PROVIDER_COLUMNS choose among: those of providers, or all rows if a term names `role`."""
        named = any(term.column == "role" for term in self.terms)
        return (frame["role"] == Role.PROVIDER) | named

    def _check_columns(self, frame: pd.DataFrame) -> None:
        known = [*IDENTITY_COLUMNS, *table.axes(frame), "dtype", *FILTERABLE]
        lower = {name.lower(): name for name in known}
        for term in self.terms:
            if term.column in known or term.column == MODE:
                continue
            path, near = frame.attrs["path"], difflib.get_close_matches(term.column.lower(), lower, n=1)
            if near and term.column not in frame:
                raise _error(term.text, f"{path} has no column {term.column!r}; did you mean {lower[near[0]]!r}?")
            there = term.column in frame
            what = f"the rows of {path} cannot be filtered by" if there else f"{path} has no column"
            raise _error(term.text, f"{what} {term.column!r}; choose from {', '.join(known)}")


def _like_a_term(part: str) -> bool:
    """Whether a text is meant as a term, valid or not: it has a comparison outside of brackets."""
    return re.search(r"[=!<>]", part.partition("[")[0]) is not None


def _cells(frame: pd.DataFrame, column: str) -> list[Any]:
    """The values of a column. For `provider` they are `(provider, params)`, which name a configuration."""
    if column == "provider":
        return list(zip(frame["provider"], frame["params"], strict=True))
    return list(_column(frame, column))


def _column(frame: pd.DataFrame, name: str) -> pd.Series[Any]:
    return frame[name] if name in frame or name != MODE else pd.Series(FORWARD, frame.index, dtype="str")


def _spellings(column: str, cell: Any) -> Iterable[str]:
    """The words that match a cell: a dtype also has aliases, and a provider also has the name of its configuration."""
    match column:
        case "provider":
            return cell[0], configuration_name(*cell)
        case "dtype":
            return cell, *(alias for alias, dtype in DTYPE_ALIASES.items() if dtype == cell)
    return str(cell).split(";") if column in JOINED_COLUMNS else (cell,)


def _few(cells: set[Any]) -> str:
    words = [configuration_name(*cell) if isinstance(cell, tuple) else str(cell) or "empty" for cell in sorted(cells)]
    return ", ".join(words if len(words) <= 12 else [*words[:10], "...", words[-1]])


def _shown(text: str) -> str:
    """The text in quotes, with escapes for what cannot be printed; the beginning of a long one."""
    return repr(text if len(text) <= NAME_LIMIT else f"{text[:NAME_LIMIT]} ...")


def _error(term: str, what: str) -> UsageError:
    return UsageError(f"--where {_shown(term.strip())}: {what}")
