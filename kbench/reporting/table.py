"""Tables of the page: their cells as HTML. A column of numbers sorts by its numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from markupsafe import Markup, escape

from kbench.comparison.verdict import Verdict
from kbench.results.vocabulary import Flag, Status
from kbench.text.printable import printable
from kbench.text.table import Table

TONES = {
    **{status.value: "alarm" for status in Status if status.failed},
    **{verdict.value: {"!": "alarm", "+": "good"}.get(verdict.glyph, "") for verdict in Verdict},
    Flag.SUSPECT.value: "alarm",
}
"""By word: the style of a cell of TONED_COLUMNS."""

TONED_COLUMNS = ("status", "verdict", "kind")


def page_table(columns: Sequence[tuple[str, Sequence[str]]]) -> Table:
    """The table of these columns, without empty ones."""
    table = Table.of(columns)
    return table.without_empty(table.header)


def body(table: Table) -> Markup:
    """The rows as HTML. End tags of cells are left out, as HTML allows: there are thousands."""
    columns = []
    for head, cells, numeric in zip(table.header, table.columns, table.numeric, strict=True):
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


def number(value: float | None, write: Callable[[float], str]) -> str:
    """A number as text, "" for a missing or infinite one."""
    return "" if value is None or not math.isfinite(value) else write(value)
