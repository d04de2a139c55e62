"""Text in columns and paragraphs. Nothing is ever cropped: what does not fit on a line goes on more of them."""

from __future__ import annotations

import textwrap
from collections import Counter
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
    """Remarks on lines: after the line where there is room, else below it, or once for all that have the same."""

    def __init__(self, texts: Sequence[str], room: int, width: int) -> None:
        """`room` is what the longest of the lines leaves of `width`."""
        counts = Counter(text for text in texts if cell_len(text) > room)
        self.width = width
        self.numbers = {text: place for place, text in enumerate((t for t, n in counts.items() if n > 1), start=1)}

    def after(self, line: str, text: str) -> list[str]:
        if not text:
            return [line]
        if text in self.numbers:
            return [f"{line} ({self.numbers[text]})"]
        if cell_len(line) + len(": ") + cell_len(text) <= self.width:
            return [f"{line}: {text}"]
        return [line, *paragraphs([text], self.width, INDENT)]

    def below(self) -> list[str]:
        return paragraphs((f"({number}) {text}" for text, number in self.numbers.items()), self.width)
