"""Choosing rows by what was measured: `--where 'dtype=bf16,N>=4k,provider=triton*|cuda'`.

A term is a column, one of `= != < <= > >=`, and one or more values: `N=1024,4096`. A comma or `|` separates values. A comma
also separates terms, which must all hold: the text after a comma is a new term if it contains a comparison, and otherwise one
more value. A comma inside brackets belongs to the name of a configuration. Whole numbers may end in k, M or G (powers of 1024).
In words, `*` stands for any characters and `?` for one; brackets have no special meaning. The rows of a file without the column
`mode` are forward.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from kbench.errors import UsageError
from kbench.results.case import DTYPE_ALIASES, LIKE_NUMBER
from kbench.results.reader import Results
from kbench.results.row import COLUMNS, CONDITION_COLUMNS, IDENTITY_COLUMNS, Row
from kbench.text.suggest import as_written, unknown
from kbench.text.words import COMMA_OUTSIDE

PROVIDER_COLUMNS = ("provider", "params", "status", "flags")
"""Terms on these columns choose among the providers of a case and keep its controls, unless another term names `role`."""

FILTERABLE = ("dtype", "role", "session", "status", "flags", *CONDITION_COLUMNS, "model", "weight", "mode")
"""The columns that a term may name in addition to the first ones and the axes."""

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
            advice = "not a condition; write one like N=1024,4096 or N>=4k; the comparisons are = != < <= > >="
            raise _error(text, advice)
        column, comparison, values = match.groups()
        split = tuple(value.strip() for value in re.split(rf"\||{COMMA_OUTSIDE.pattern}", values))
        if comparison in ORDER and len(split) > 1:
            raise _error(text, f"several values after {comparison}; give one")
        return cls(text.strip(), column, comparison.replace("==", "="), split)

    def holds(self, row: Row) -> bool:
        """Whether a row meets the condition. Raises UsageError for a value that the row's column cannot have."""
        cell = row.value(self.column)
        if order := ORDER.get(self.comparison):
            if isinstance(cell, str | bool | tuple):
                raise _error(self.text, f"{self.column} holds words, which have no order; use = or !=")
            return cell is not None and order(cell, self._number(self.values[0]))
        if isinstance(cell, int | float) and not isinstance(cell, bool):
            is_one_of_them = cell in map(self._number, self.values)
        else:
            words = _spellings(row, self.column)
            patterns = [value.replace("[", "[[]") for value in self.values]
            is_one_of_them = any(fnmatchcase(word, pattern) for word in words for pattern in patterns)
        return is_one_of_them == (self.comparison == "=")

    def _number(self, value: str) -> float:
        if match := _SIZE.fullmatch(value):
            return int(match[1]) * _UNITS[match[2].lower()]
        if not LIKE_NUMBER.fullmatch(value):
            raise _error(self.text, f"{as_written(value)} is not a number; write one like 4096, 4k or 1e-6")
        return float(value)


@dataclass(frozen=True)
class RowFilter:
    """Conditions that must all hold."""

    terms: tuple[Term, ...]

    @classmethod
    def parse(cls, text: str) -> RowFilter:
        """The conditions in a text, separated by commas; no conditions for "". Raises UsageError."""
        texts: list[str] = []
        for part in COMMA_OUTSIDE.split(text) if text.strip() else ():
            is_term = re.search(r"[=!<>]", part.partition("[")[0])
            if texts and part.strip() and not is_term:
                texts[-1] += f",{part}"
            else:
                texts.append(part)
        return cls(tuple(map(Term.parse, texts)))

    def select(self, results: Results) -> Results:
        """The chosen rows. If there are none of providers, `nothing` says why.

        Raises UsageError for a column that the file does not have, and for a value that its column cannot have.
        """
        names = list(dict.fromkeys([*IDENTITY_COLUMNS, *results.axes, *FILTERABLE]))
        for term in self.terms:
            if term.column not in names:
                measured = f"{term.column} cannot choose rows; choose from {', '.join(names)}"
                problem = measured if term.column in COLUMNS else unknown("column", term.column, names)
                raise _error(term.text, f"{results.path}: {problem}")
        return results.only([self._keeps(row) for row in results.rows])

    def _keeps(self, row: Row) -> bool:
        is_spared = not self._chooses_among(row)
        return all((is_spared and term.column in PROVIDER_COLUMNS) or term.holds(row) for term in self.terms)

    def nothing(self, results: Results) -> str:
        """One line that says why `select` keeps no provider: the term that no row meets, and the values that rows have."""
        path, rows, met = results.path, list(filter(self._chooses_among, results.rows)), ""
        for term in self.terms if rows else ():
            chosen = list(filter(term.holds, rows))
            if not chosen:
                has = f"{term.column} {_few({value for row in rows for value in _values(row, term.column)})}"
                return f"{path}: no row has {term.text}{met and f' among those with {met}'}; {has}"
            rows, met = chosen, f"{met}, {term.text}" if met else term.text
        return f"{path}: the file has no row of any provider{met and f' with {met}'}; run the sweep again or choose other rows"

    def _chooses_among(self, row: Row) -> bool:
        """Whether terms on PROVIDER_COLUMNS choose among such rows: those of providers, or all rows if a term names `role`."""
        return row.of_provider or any(term.column == "role" for term in self.terms)


def _spellings(row: Row, column: str) -> list[str]:
    """The words that match a row: a dtype also has aliases, and a provider also has the name of its configuration."""
    words = [str(value) for value in _values(row, column)]
    if column == "provider":
        return [*words, row.configuration_name]
    if column == "dtype":
        return words + [alias for alias, dtype in DTYPE_ALIASES.items() if dtype == row.case.dtype]
    if isinstance(row.value(column), bool):
        return [*words, *map(str.lower, words), *map(str.upper, words)]
    return words


def _values(row: Row, column: str) -> list[Any]:
    """The values of a row in a column: flags and models one by one, and "" for none."""
    value = row.value(column)
    if column == "model":
        return str(value).split(";")
    if isinstance(value, tuple):
        return list(value) or [""]
    return ["" if value is None else value]


def _few(values: set[Any]) -> str:
    in_order = sorted(values, key=lambda value: (isinstance(value, str), value))
    words = [str(value) or "empty" for value in in_order]
    if len(words) == 1:
        return f"is {words[0]} in all of them"
    if len(words) > 12:
        words = [*words[:10], "...", words[-1]]
    return f"is one of {', '.join(words)}"


def _error(term: str, problem: str) -> UsageError:
    return UsageError(f"{as_written(term.strip())}: {problem}")
