"""Prints data to stdout, and progress and warnings to stderr. Without a terminal, lines are plain and never cropped.

All text goes through the streams of `kbench.text.streams`. rich writes escape codes, so this module first makes other
people's text one printable line.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kbench.text.printable import REASON_LIMIT, harmless_line, printable
from kbench.text.streams import Stream

if TYPE_CHECKING:
    from rich.console import Console

UNLIMITED_WIDTH = 2000
"""Columns that rich gets where there is no terminal. Without them it would assume 80 and crop."""

NARROWEST = 20
"""The width in columns that a very narrow window counts as."""

READABLE = 20
"""The smallest width of a text column in a table."""

GAP = 2
"""Spaces between the columns of a table."""

MESSAGE_LIMIT = 2 * REASON_LIMIT
"""Limit of the characters in an error, a warning or a note: a reason and the text around it."""

LOG_WIDTH = 120
"""Columns of text in a pipe or a file. The log of a CI job shows them without wrapping."""


def console(*, stderr: bool = False) -> Console:
    """A console that writes text unchanged. Pass text from other people through `one_line` first."""
    from rich.console import Console  # here and below: importing rich takes longer than `kbench --help`

    stream = (sys.stderr if stderr else sys.stdout) or Stream(None)
    file: Any = stream.as_it_is if isinstance(stream, Stream) else stream
    if stream.isatty():
        return Console(file=file, highlight=False, emoji=False)
    return Console(file=file, highlight=False, emoji=False, width=UNLIMITED_WIDTH, height=100, soft_wrap=True)


def width() -> int:
    """The columns that text on stdout may have: COLUMNS, or else the terminal's width, or else LOG_WIDTH."""
    return shutil.get_terminal_size((LOG_WIDTH, 24)).columns


def colours() -> bool:
    """Whether text on stdout may have colours: only on a terminal with colours, and not if NO_COLOR is set."""
    out = console()
    return out.is_terminal and out.color_system is not None and not out.no_color


def one_line(text: str) -> str:
    """The message as one printable line of bounded length that GitHub Actions does not take for a command."""
    return harmless_line(printable(text, MESSAGE_LIMIT))


def write_text(text: str, *, commands: bool = False) -> None:
    """Write text with lines of any length to stdout. `commands`: the text is kbench's own workflow commands for GitHub
    Actions. A reader that stops early, such as `head`, is no failure."""
    stream = sys.stdout
    if not isinstance(stream, Stream):
        stream.write(text)
        stream.flush()
        return
    if commands:
        stream.pass_on(text)
    else:
        stream.write_data(text)
    stream.flush()
    stream.forgive_a_reader_that_has_gone()


def error(message: str) -> None:
    """Print an error to stderr."""
    console(stderr=True).print(f"error: {one_line(message)}", style="bold red", markup=False)


def warn(message: str) -> None:
    console(stderr=True).print(f"warning: {one_line(message)}", style="yellow", markup=False)


def note(message: str) -> None:
    """Print a line about progress to stderr."""
    console(stderr=True).print(one_line(message), markup=False)


def is_terminal() -> bool:
    """Whether stdout is a terminal."""
    return console().is_terminal


def _window() -> int | None:
    """The width at which lines are wrapped. None in a pipe, which gets whole lines, unless COLUMNS is set."""
    return max(width(), NARROWEST) if is_terminal() or os.environ.get("COLUMNS") else None


def print_paragraph(text: str, *, indent: int = 0) -> None:
    """Print a line to stdout, wrapped between words to the width of the terminal."""
    text, room = one_line(text), _window()
    if room is None:
        print(" " * indent + text)
        return
    for line in _wrapped(text, room - indent):
        print(" " * indent + line)


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, numeric: Iterable[str] = ()) -> None:
    """Print a table to stdout. Columns named in `numeric` are right-aligned. If the table is too wide for the terminal, its
    widest text columns are wrapped between words. Nothing is cropped."""
    header, lines, right = list(map(_cell, header)), [list(map(_cell, row)) for row in rows], set(map(_cell, numeric))
    widths = [max(map(_columns, column)) for column in zip(header, *lines, strict=True)]
    room = _window()
    if room is not None:
        widths = _fitting(widths, [name not in right for name in header], room)
    out = console()
    for number, line in enumerate([header, *lines]):
        cells = [_wrapped(cell, size) for cell, size in zip(line, widths, strict=True)]
        for part in range(max(map(len, cells), default=0)):
            padded = [
                _padded(cell[part] if part < len(cell) else "", size, right=name in right)
                for cell, size, name in zip(cells, widths, header, strict=True)
            ]
            text = (" " * GAP).join(padded).rstrip()
            if out.is_terminal and not number:
                from rich.text import Text

                out.print(Text(text, style="bold"), soft_wrap=True)
            else:
                print(text)
        if out.is_terminal and not number:
            print("─" * (sum(widths) + GAP * (len(widths) - 1)))


def _cell(text: str) -> str:
    return harmless_line(printable(text, REASON_LIMIT))


def _fitting(widths: list[int], text: list[bool], room: int) -> list[int]:
    """The widths of columns, with the widest text columns narrowed until all fit. Unchanged if they would become unreadable."""
    fitting = list(widths)
    excess = sum(widths) + GAP * (len(widths) - 1) - room
    while excess > 0:
        widest = max(
            (place for place in range(len(widths)) if text[place]), key=lambda place: fitting[place], default=-1
        )
        if widest < 0 or fitting[widest] <= READABLE:
            return widths
        fitting[widest] -= 1
        excess -= 1
    return fitting


def _wrapped(text: str, size: int) -> list[str]:
    """Lines of at most `size` characters, wrapped between words. A longer word stays whole."""
    if _columns(text) <= size:
        return [text]
    return textwrap.wrap(text, max(size, 1), break_long_words=False, break_on_hyphens=False) or [""]


def _columns(text: str) -> int:
    """How many columns of a terminal a text takes: two for a wide character."""
    from rich.cells import cell_len

    return cell_len(text)


def _padded(text: str, size: int, *, right: bool) -> str:
    space = " " * (size - _columns(text))
    return space + text if right else text + space


def microseconds(ms: float) -> str:
    """A time in microseconds with three or more significant digits."""
    us = ms * 1e3
    return f"{us:.2f}" if us < 100 else f"{us:.1f}" if us < 1000 else f"{us:.0f}"


def speed(value: float) -> str:
    """A number of GB/s, GFLOP/s or TFLOP/s with three or more significant digits."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def arithmetic_unit(tflops: float) -> tuple[str, float]:
    """The unit for a number of TFLOP/s, and how many of it are one TFLOP/s: GFLOP/s below 0.1 TFLOP/s."""
    return ("TFLOP/s", 1.0) if tflops >= 0.1 else ("GFLOP/s", 1000.0)


def duration(seconds: float) -> str:
    """`45 s`, `3 min 20 s`, `2 h 05 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
