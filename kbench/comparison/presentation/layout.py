"""Text in columns, paragraphs and footnotes. Nothing is ever cropped: what does not fit on a line goes on more of them."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Sequence

from rich.cells import cell_len

GAP = "  "
INDENT = "    "

Cells = dict[str, str]


def paragraphs(texts: Iterable[str], width: int, indent: str = "", hang: str = "") -> list[str]:
    """Wrapped between words only, so that a path or a provider's name can still be found and copied.

    `hang` stands before all lines of a paragraph but the first; as far in as the first, or a little, if not given.
    """
    wrapper = textwrap.TextWrapper(
        max(width, len(indent) + 1),
        initial_indent=indent,
        subsequent_indent=hang or indent or GAP,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line for text in texts for line in wrapper.wrap(text)]


def columns(lines: Sequence[Cells], names: Iterable[str]) -> dict[str, int]:
    """How wide each column is, its name included, in columns of a terminal, of which a CJK sign takes two."""
    return {name: max([cell_len(name), *(cell_len(cells[name]) for cells in lines)]) for name in names}


def total(widths: dict[str, int]) -> int:
    """The width of all columns, with a gap after each."""
    return sum(widths.values()) + len(GAP) * len(widths)


def line(cells: Cells, widths: dict[str, int], right: Collection[str] = ()) -> str:
    """Cells side by side, a gap after each."""
    padded = []
    for name, width in widths.items():
        space = " " * (width - cell_len(cells[name]))
        padded.append(space + cells[name] if name in right else cells[name] + space)
    return "".join(cell + GAP for cell in padded)


class Remarks:
    """Remarks on lines: after the line where all have room, else below the table, once for all lines that have the same."""

    def __init__(self, texts: Sequence[str], room: int) -> None:
        """`room` is what the longest of the lines leaves."""
        long = dict.fromkeys(text for text in texts if text and cell_len(f": {text}") > room)
        self._numbers = {text: place for place, text in enumerate(long, start=1)}

    def of(self, text: str) -> str:
        """What follows the line."""
        if text in self._numbers:
            return f" ({self._numbers[text]})"
        return f": {text}" if text else ""

    def below(self) -> list[str]:
        return [f"({number}) {text}" for text, number in self._numbers.items()]
