"""Tables of the page. Cells are text; a column of numbers is aligned to the right and sorts by its numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kbench.comparison.verdict import Verdict
from kbench.results.vocabulary import Flag, Status

NUMBER = re.compile(r"[<>~+-]? ?[\d,.]+(e[+-]?\d+)?( ?[x%])?")
NO_NUMBER = ("", "-", "baseline")
"""What may stand in a column of numbers in place of one."""

TONES = {
    **{status.value: "alarm" for status in Status if status.failed},
    **{verdict.value: {"!": "alarm", "+": "good"}.get(verdict.glyph, "") for verdict in Verdict},
    Flag.SUSPECT.value: "alarm",
}
"""By word: the style of a cell of TONED_COLUMNS."""

TONED_COLUMNS = ("status", "verdict", "kind")


@dataclass(frozen=True)
class PageTable:
    """`numeric` says for each column whether it holds numbers. `choices` are the values of the columns to filter by."""

    heads: list[str]
    rows: list[Sequence[str]]
    numeric: list[bool]
    choices: dict[str, list[str]]


def page_table(columns: Mapping[str, Iterable[str]], choose_by: Sequence[str] = ()) -> PageTable:
    """The table of these columns, without empty ones. Readers can filter it by the columns `choose_by` that vary."""
    cells = {head: list(values) for head, values in columns.items()}
    cells = {head: values for head, values in cells.items() if any(values)}
    numeric = [all(value in NO_NUMBER or NUMBER.fullmatch(value) for value in values) for values in cells.values()]
    choices = {head: list(dict.fromkeys(filter(None, cells[head]))) for head in choose_by if head in cells}
    rows: list[Sequence[str]] = list(zip(*cells.values(), strict=True))
    return PageTable(list(cells), rows, numeric, {head: words for head, words in choices.items() if len(words) > 1})


def number(value: float | None, write: Callable[[float], str]) -> str:
    """A number as text, "" for a missing or infinite one."""
    return "" if value is None or not math.isfinite(value) else write(value)
