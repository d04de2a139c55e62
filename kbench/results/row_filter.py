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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from kbench.errors import UsageError
from kbench.results.case import COMMA_OUTSIDE, DTYPE_ALIASES, FORWARD, LIKE_NUMBER, configuration_name
from kbench.results.reader import Results
from kbench.results.row import COLUMNS, CONDITION_COLUMNS, IDENTITY_COLUMNS, Row
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

    def keeps(self, rows: Sequence[Row]) -> list[bool]:
        """Whether the condition holds, for each row. Raises UsageError for a value that the column cannot have."""
        cells = [_cell(row, self.column) for row in rows]
        match _kind(self.column, {type(cell) for cell in cells}):
            case "size":
                matches = self._matches_number(self.size)
            case "number":
                matches = self._matches_number(self._number)
            case "flag":
                matches = self._matches_flag()
            case _:
                matches = self._matches_word()
        verdicts = {cell: matches(cell) for cell in set(cells)}
        return [verdicts[cell] for cell in cells]

    def _matches_number(self, read: Callable[[str], float]) -> Callable[[Any], bool]:
        numbers = [read(value) for value in self.values]
        if order := ORDER.get(self.comparison):
            return lambda cell: cell is not None and order(cell, numbers[0])
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

    def select(self, results: Results) -> Results:
        """The chosen rows. If there are none of providers, `nothing` says why.

        Raises UsageError for a column that the file does not have, and for a value that its column cannot have.
        """
        self._check_columns(results)
        rows = results.rows
        kept = [True] * len(rows)
        for term in self.terms if rows else ():
            holds = term.keeps(rows)
            if term.column in PROVIDER_COLUMNS:
                holds = [held or not self._chooses_among(row) for held, row in zip(holds, rows, strict=True)]
            kept = [both and held for both, held in zip(kept, holds, strict=True)]
        return results.only(kept)

    def select_providers(self, results: Results) -> Results:
        """The chosen rows. Raises UsageError also if there are none of providers."""
        if not self.terms:
            return results
        chosen = self.select(results)
        if not chosen.provider_rows:
            raise UsageError(self.nothing(results))
        return chosen

    def nothing(self, results: Results) -> str:
        """One line that says why `select` keeps no provider: the term that no row meets, and the values that rows have."""
        path, rows, met = results.path, list(filter(self._chooses_among, results.rows)), ""
        for term in self.terms if rows else ():
            chosen = [row for row, held in zip(rows, term.keeps(rows), strict=True) if held]
            if not chosen:
                has = f"{term.column} {_few({word for row in rows for word in _values(row, term.column)})}"
                if term.column == MODE and MODE not in results.axes:
                    has = f"the file has no column {MODE}, so its rows are {FORWARD}"
                return f"{path}: no row has {term.text}{met and f' among those with {met}'}; {has}"
            rows, met = chosen, f"{met}, {term.text}" if met else term.text
        return f"{path}: the file has no row of any provider{met and f' with {met}'}; run the sweep again or choose other rows"

    def _chooses_among(self, row: Row) -> bool:
        """Whether terms on PROVIDER_COLUMNS choose among such rows: those of providers, or all rows if a term names `role`."""
        return row.role is Role.PROVIDER or any(term.column == "role" for term in self.terms)

    def _check_columns(self, results: Results) -> None:
        known = [*IDENTITY_COLUMNS, *results.axes, "dtype", *FILTERABLE]
        lower = {name.lower(): name for name in known}
        for term in self.terms:
            if term.column in known or term.column == MODE:
                continue
            path, near = results.path, difflib.get_close_matches(term.column.lower(), lower, n=1)
            exists = term.column in COLUMNS
            if near and not exists:
                raise _error(term.text, f"{path} has no column {term.column!r}; did you mean {lower[near[0]]!r}?")
            what = f"the rows of {path} cannot be filtered by" if exists else f"{path} has no column"
            raise _error(term.text, f"{what} {term.column!r}; choose from {', '.join(known)}")


def _like_a_term(part: str) -> bool:
    """Whether a text is meant as a term, valid or not: it has a comparison outside of brackets."""
    return re.search(r"[=!<>]", part.partition("[")[0]) is not None


def _cell(row: Row, column: str) -> Any:
    """The value of a column. For `provider` it is `(provider, params)`, which names a configuration."""
    match column:
        case "provider":
            return row.provider, row.params
        case "operator" | "dtype":
            return getattr(row.case, column)
    if column in COLUMNS:
        return getattr(row, column)
    return row.case.axes.get(column, FORWARD if column == MODE else None)


def _kind(column: str, types: set[type]) -> str:
    """What a column holds whose cells have these types."""
    if column in COLUMNS and COLUMNS[column].kind in ("number", "count"):
        return {"number": "number", "count": "size"}[COLUMNS[column].kind]
    known = types - {type(None)}
    if known == {bool}:
        return "flag"
    if known == {int}:
        return "size"
    return "number" if known and known <= {int, float} else "word"


def _spellings(column: str, cell: Any) -> Iterable[str]:
    """The words that match a cell: a dtype also has aliases, and a provider also has the name of its configuration."""
    match column:
        case "provider":
            return cell[0], configuration_name(*cell)
        case "dtype":
            return cell, *(alias for alias, dtype in DTYPE_ALIASES.items() if dtype == cell)
        case "flags":
            return cell or ("",)
        case "model":
            return str(cell).split(";")
    return ("",) if cell is None else (str(cell).lower() if isinstance(cell, bool) else str(cell),)


def _values(row: Row, column: str) -> Iterable[Any]:
    """The values of a column that a row has, for a message."""
    cell = _cell(row, column)
    return _spellings(column, cell) if column in JOINED_COLUMNS else ["" if cell is None else cell]


def _few(cells: set[Any]) -> str:
    if cells == {""}:
        return "is empty in all of them"
    ordered = sorted(cells, key=lambda cell: (isinstance(cell, str), cell))
    words = [configuration_name(*cell) if isinstance(cell, tuple) else str(cell) or "empty" for cell in ordered]
    return f"is one of {', '.join(words if len(words) <= 12 else [*words[:10], '...', words[-1]])}"


def _shown(text: str) -> str:
    """The text in quotes, with escapes for what cannot be printed; the beginning of a long one."""
    return repr(text if len(text) <= NAME_LIMIT else f"{text[:NAME_LIMIT]} ...")


def _error(term: str, what: str) -> UsageError:
    return UsageError(f"--where {_shown(term.strip())}: {what}")
