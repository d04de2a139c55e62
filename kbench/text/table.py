"""A table of text, as `show`, the end of a run and `compare` print it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len

GAP = 2
"""Spaces between the columns of a table."""

NO_VALUE = "-"
"""The cell of a value that a row lacks."""


@dataclass(frozen=True)
class Table:
    """Cells as text.

    right  the heads of the columns that are right-aligned: those of numbers
    title  what all rows have in common
    """

    header: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    right: Collection[str] = ()
    title: str = ""

    @property
    def width(self) -> int:
        """The width of the printed table in columns of the terminal."""
        columns = zip(self.header, *self.rows, strict=True)
        return sum(max(map(cell_len, column)) for column in columns) + GAP * (len(self.header) - 1)

    def without(self, least: Sequence[str], width: int | None) -> Table:
        """The table without some of the columns `least`. It drops them one by one until the table fits the width."""
        table = self
        for head in least:
            if width is None or table.width <= width:
                break
            table = table.drop(head)
        return table

    def without_empty(self, heads: Sequence[str]) -> Table:
        """The table without those of the columns `heads` that say nothing in any row, such as the errors of scripts."""
        table = self
        for head in heads:
            cells = {row[table._place(head)] for row in table.rows} if head in table.header else set()
            table = table.drop(head) if cells and cells <= {NO_VALUE, ""} else table
        return table

    def drop(self, head: str) -> Table:
        """The table without a column, if it has it."""
        if head not in self.header:
            return self
        place = self._place(head)
        rows = [[*row[:place], *row[place + 1 :]] for row in self.rows]
        return replace(self, header=(*self.header[:place], *self.header[place + 1 :]), rows=rows)

    def _place(self, head: str) -> int:
        """The place of the last column with this head: an axis, which comes first, may have the name of another column."""
        return len(self.header) - 1 - self.header[::-1].index(head)

    def lines(self) -> list[str]:
        """The heads and the rows in columns. Cells are not wrapped. A CJK character takes two columns of the terminal.

        rich.table needs ten times as long for thousands of rows, most of it to wrap cells.
        """
        columns = []
        for cells in zip(self.header, *self.rows, strict=True):
            size = max(map(cell_len, cells))
            blanks = [" " * (size - cell_len(cell)) for cell in cells]
            to_the_right = cells[0] in self.right
            columns.append(
                [blank + cell if to_the_right else cell + blank for cell, blank in zip(cells, blanks, strict=True)]
            )
        return [(" " * GAP).join(cells).rstrip() for cells in zip(*columns, strict=True)]
