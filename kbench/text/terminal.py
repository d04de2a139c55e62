"""How kbench prints: data to stdout, progress and warnings to stderr; without a terminal plain lines, nothing cropped.

All of it passes the streams of `kbench.text.streams`. What comes from elsewhere and reaches a terminal through rich, which
writes escape codes of its own, is made one printable line here.
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
"""Columns of a window in which something can be read."""

READABLE = 20
"""A column of text is not made narrower than that."""

GAP = 2
"""Spaces between columns."""

MESSAGE_LIMIT = 2 * REASON_LIMIT
"""Characters of an error, a warning or a note that are shown: a reason with what stands around it."""

LOG_WIDTH = 120
"""Columns of a text that goes to a pipe or a file: what a job's log shows without wrapping."""


def console(*, stderr: bool = False) -> Console:
    """A console that writes what it is given. Text from elsewhere goes through `one_line` first."""
    from rich.console import Console  # here and below: importing rich takes longer than `kbench --help`

    stream = (sys.stderr if stderr else sys.stdout) or Stream(None)
    file: Any = stream.as_it_is if isinstance(stream, Stream) else stream
    if stream.isatty():
        return Console(file=file, highlight=False, emoji=False)
    return Console(file=file, highlight=False, emoji=False, width=UNLIMITED_WIDTH, height=100, soft_wrap=True)


def width() -> int:
    """How many columns a text on stdout may have: what COLUMNS says, else the terminal's, else those of a log."""
    return shutil.get_terminal_size((LOG_WIDTH, 24)).columns


def colours() -> bool:
    """Whether text on stdout may have colours: on a terminal that has them, unless NO_COLOR is set."""
    out = console()
    return out.is_terminal and out.color_system is not None and not out.no_color


def one_line(text: str) -> str:
    """A message as it may be shown: one printable line, of bounded length, that is no command of GitHub Actions."""
    return harmless_line(printable(text, MESSAGE_LIMIT))


def write(text: str, *, commands: bool = False) -> None:
    """Text to stdout, lines of any length; `commands` are workflow commands of GitHub Actions, which only kbench's own lines
    may be. A reader that has gone, as `head` does, is no failure of what was to be told."""
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
    """One error for the person at the keyboard."""
    console(stderr=True).print(f"error: {one_line(message)}", style="bold red", markup=False)


def warn(message: str) -> None:
    console(stderr=True).print(f"warning: {one_line(message)}", style="yellow", markup=False)


def note(message: str) -> None:
    """A line on stderr about how things go."""
    console(stderr=True).print(one_line(message), markup=False)


def is_terminal() -> bool:
    """Whether stdout is a window that somebody looks at."""
    return console().is_terminal


def _window() -> int | None:
    """The width at which lines are broken: None in a pipe, whose reader may want them whole, unless COLUMNS is set."""
    return max(width(), NARROWEST) if is_terminal() or os.environ.get("COLUMNS") else None


def print_paragraph(text: str, *, indent: int = 0) -> None:
    """A line on stdout, broken between words where it is wider than the reader's window."""
    text, room = one_line(text), _window()
    if room is None:
        print(" " * indent + text)
        return
    for line in _wrapped(text, room - indent):
        print(" " * indent + line)


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, numeric: Iterable[str] = ()) -> None:
    """A table on stdout. Columns named in `numeric` are right-aligned. Where it is wider than the reader's window, its widest
    columns of text are broken between words; nothing is cropped."""
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
    """The widths of columns, the widest ones of text narrowed until all fit; as they are where they would become unreadable."""
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
    """Lines of at most `size` characters, broken between words; a longer word stays whole."""
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
    """A time as people read kernel times: microseconds with three or more significant digits."""
    us = ms * 1e3
    return f"{us:.2f}" if us < 100 else f"{us:.1f}" if us < 1000 else f"{us:.0f}"


def duration(seconds: float) -> str:
    """`45 s`, `3 min 20 s`, `2 h 05 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
