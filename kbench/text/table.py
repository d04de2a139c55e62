"""A table of text. The terminal, markdown and the page of a report show the same ones, each in its way."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import zip_longest

from rich.cells import cell_len

GAP = 2
"""Spaces between the columns of a table."""

NO_VALUE = "-"
"""The cell of a value that a row lacks."""

NUMBER = re.compile(r"[<>~+-]? ?[\d,.]+(e[+-]?\d+)?[x%]?[*~?]?|\[[^a-z]+\]|\d+(/\d+)+")
"""`+5.3%`, `0.91x?`, `[+4.6, +6.1]`, `74/17/3`."""

_WRAP = partial(textwrap.wrap, break_long_words=False, break_on_hyphens=False)


@dataclass(frozen=True)
class Table:
    """Cells as text. Two columns may have the same head: an axis may be called `q`. `title` is what all rows have in common."""

    header: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    title: str = ""

    @classmethod
    def of(cls, columns: Iterable[tuple[str, Sequence[str]]]) -> Table:
        """The table of columns with their heads."""
        header, columns_of_cells = zip(*columns, strict=True)
        return cls(header, list(zip(*columns_of_cells, strict=True)))

    @cached_property
    def columns(self) -> list[Sequence[str]]:
        return list(zip(*self.rows, strict=True)) or [()] * len(self.header)

    @cached_property
    def numeric(self) -> list[bool]:
        """Whether each column holds numbers, or single words in place of some. Such columns are aligned to the right."""
        return [_holds_numbers({cell.strip() for cell in cells}) for cells in self.columns]

    @property
    def width(self) -> int:
        """The width of the printed table in columns of the terminal."""
        return sum(self._sizes(None)) + GAP * (len(self.header) - 1)

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
            cells = set(table.columns[table._place(head)]) if head in table.header else set()
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

    def lines(self, window: int | None = None) -> list[str]:
        """The heads and the rows in columns. A CJK character takes two columns of the terminal. If the table is wider than the
        window, cells of text are wrapped between words; no cell is cropped."""
        rows = [self.header, *self.rows]
        sizes = self._sizes(window)
        lines = []
        for row in rows:
            cells = [
                [cell] if cell_len(cell) <= size else _WRAP(cell, size) for cell, size in zip(row, sizes, strict=True)
            ]
            lines += [self._line(parts, sizes) for parts in zip_longest(*cells, fillvalue="")]
        return lines

    def _sizes(self, window: int | None) -> list[int]:
        """The widths of the columns. In a narrow window the widest columns of text shrink, down to their longest words."""
        columns = [(head, *cells) for head, cells in zip(self.header, self.columns, strict=True)]
        sizes = [max(map(cell_len, column)) for column in columns]
        excess = 0 if window is None else sum(sizes) + GAP * (len(sizes) - 1) - window
        if excess <= 0:
            return sizes
        least = [max((cell_len(word) for cell in column for word in cell.split()), default=0) for column in columns]
        for _ in range(excess):
            places = [place for place, size in enumerate(sizes) if not self.numeric[place] and size > least[place]]
            if places:
                sizes[max(places, key=sizes.__getitem__)] -= 1
        return sizes

    def _line(self, parts: Sequence[str], sizes: Sequence[int]) -> str:
        cells = []
        for part, size, numeric in zip(parts, sizes, self.numeric, strict=True):
            blanks = " " * (size - cell_len(part))
            cells.append(blanks + part if numeric else part + blanks)
        return (" " * GAP).join(cells).rstrip()


def _holds_numbers(texts: Iterable[str]) -> bool:
    others = [text for text in texts if not NUMBER.fullmatch(text)]
    return len(others) < len(set(texts)) and not any(" " in text for text in others)
