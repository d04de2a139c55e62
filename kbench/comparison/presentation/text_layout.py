"""Text in columns, paragraphs and footnotes. Nothing is cropped: text that does not fit continues on the next line."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Sequence

from rich.cells import cell_len

COLUMN_GAP = "  "
INDENT = "    "

Cells = dict[str, str]


def paragraphs(texts: Iterable[str], width: int, indent: str = "", hang: str = "") -> list[str]:
    """The lines of wrapped paragraphs. Words are never split, so that paths and names can be found and copied.

    `indent` precedes the first line of each paragraph, `hang` the others. `hang` is by default `indent`, or a gap.
    """
    wrapper = textwrap.TextWrapper(
        max(width, len(indent) + 1),
        initial_indent=indent,
        subsequent_indent=hang or indent or COLUMN_GAP,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line for text in texts for line in wrapper.wrap(text)]


def column_widths(lines: Sequence[Cells], names: Iterable[str]) -> dict[str, int]:
    """The width of each column with its name, in terminal cells: a CJK character takes two."""
    return {name: max([cell_len(name), *(cell_len(cells[name]) for cells in lines)]) for name in names}


def total(widths: dict[str, int]) -> int:
    """The width of all columns together, with a gap after each."""
    return sum(widths.values()) + len(COLUMN_GAP) * len(widths)


def line(cells: Cells, widths: dict[str, int], right: Collection[str] = ()) -> str:
    """Cells side by side, a gap after each."""
    padded = []
    for name, width in widths.items():
        space = " " * (width - cell_len(cells[name]))
        padded.append(space + cells[name] if name in right else cells[name] + space)
    return "".join(cell + COLUMN_GAP for cell in padded)


class Remarks:
    """Remarks on the lines of a table. A short remark follows its line. A long one becomes a footnote, which lines share."""

    def __init__(self, texts: Sequence[str], room: int) -> None:
        """`room` is the space after the longest line."""
        long = dict.fromkeys(text for text in texts if text and cell_len(f": {text}") > room)
        self._numbers = {text: place for place, text in enumerate(long, start=1)}

    def of(self, text: str) -> str:
        """What to write after a line with this remark."""
        if text in self._numbers:
            return f" ({self._numbers[text]})"
        return f": {text}" if text else ""

    def below(self) -> list[str]:
        """The footnotes."""
        return [f"({number}) {text}" for text, number in self._numbers.items()]
