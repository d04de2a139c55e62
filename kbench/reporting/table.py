"""Tables of the page. Cells are text; a column of numbers is aligned to the right and sorts by its numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from kbench.comparison.verdict import Verdict
from kbench.results.vocabulary import Flag, Status
from kbench.text.printable import printable

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
    columns: list[list[str]]
    numeric: list[bool]
    choices: dict[str, list[str]]

    @property
    def count(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    @property
    def body(self) -> Markup:
        """The rows as HTML. End tags of cells are left out, as HTML allows: there are thousands."""
        columns = []
        for head, cells, numeric in zip(self.heads, self.columns, self.numeric, strict=True):
            tags = {text: f"<td{_class(head, text, numeric)}>{escape(printable(text))}" for text in set(cells)}
            columns.append([tags[text] for text in cells])
        return Markup("\n".join(f"<tr>{''.join(row)}" for row in zip(*columns, strict=True)))


def _class(head: str, text: str, numeric: bool) -> str:
    if numeric:
        return " class=n"
    if len(text) > 60:
        return " class=long"
    tone = TONES.get(text, "") if head in TONED_COLUMNS else ""
    return f" class={tone}" if tone else ""


Columns = Iterable[tuple[str, Iterable[str]]]
"""Columns with their heads. Two may have the same head: an axis may be called `q`."""


def page_table(columns: Columns, choose_by: Sequence[str] = ()) -> PageTable:
    """The table of these columns, without empty ones. Readers can filter it by the columns `choose_by` that vary: by the first
    one where several have the same head."""
    with_cells = [(head, list(values)) for head, values in columns]
    with_cells = [(head, values) for head, values in with_cells if any(values)]
    heads, cells = [head for head, _ in with_cells], [values for _, values in with_cells]
    numeric = [all(value in NO_NUMBER or NUMBER.fullmatch(value) for value in set(values)) for values in cells]
    choices = {head: list(dict.fromkeys(filter(None, cells[heads.index(head)]))) for head in choose_by if head in heads}
    choices = {head: words for head, words in choices.items() if len(words) > 1}
    return PageTable(heads, cells, numeric, choices)


def number(value: float | None, write: Callable[[float], str]) -> str:
    """A number as text, "" for a missing or infinite one."""
    return "" if value is None or not math.isfinite(value) else write(value)
