"""Prints data to stdout, and progress and warnings to stderr. Without a terminal, lines are plain and never cropped.

Text is printed as it is: the streams of `kbench.text.streams` escape what a terminal would obey.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kbench.text.streams import Stream
from kbench.text.table import Table

if TYPE_CHECKING:
    from rich.console import Console

NARROWEST = 20
"""The width in columns that a very narrow window counts as: text with an indent needs some."""

LOG_WIDTH = 120
"""Columns of text in a pipe or a file. The log of a CI job shows them without wrapping."""


live_console: Console | None = None
"""That of a progress bar, while there is one: notes appear above the bar."""


def console(*, stderr: bool = False, live: bool = False) -> Console:
    """A console that writes plain text and colours. `live`: it also moves the cursor, for a progress bar."""
    # here and below: importing rich takes longer than `kbench --help`
    from rich.console import Console

    file: Any = sys.stderr if stderr else sys.stdout
    if live and isinstance(file, Stream):
        file = Stream(file.inner, escapes=False)
    # without a terminal rich would assume 80 columns
    return Console(file=file, highlight=False, emoji=False, soft_wrap=not file.isatty())


def width() -> int:
    """The columns that text on stdout may have: COLUMNS, or else the terminal's width, or else LOG_WIDTH."""
    return shutil.get_terminal_size((LOG_WIDTH, 24)).columns


def colours() -> bool:
    """Whether text on stdout may have colours: only on a terminal with colours, and not if NO_COLOR is set."""
    out = console()
    return out.is_terminal and out.color_system is not None and not out.no_color


def write_text(text: str, *, commands: bool = False) -> None:
    """Write text to stdout. `commands`: the text is kbench's own workflow commands for GitHub Actions."""
    if commands and isinstance(sys.stdout, Stream):
        sys.stdout.pass_on(text)
    else:
        sys.stdout.write(text)


def error(message: str) -> None:
    """Print an error to stderr."""
    console(stderr=True).print(f"error: {message}", style="bold red", markup=False)


def warn(message: str) -> None:
    console(stderr=True).print(f"warning: {message}", style="yellow", markup=False)


def note(message: str) -> None:
    """Print a line about progress to stderr."""
    (live_console or console(stderr=True)).print(message, markup=False)


def is_terminal() -> bool:
    """Whether stdout is a terminal."""
    return console().is_terminal


def _window() -> int | None:
    """The width at which lines are wrapped. None in a pipe, which gets whole lines, unless COLUMNS is set."""
    return max(width(), NARROWEST) if is_terminal() or os.environ.get("COLUMNS") else None


def print_paragraph(text: str, *, indent: int = 0) -> None:
    """Print a line to stdout, wrapped between words to the width of the terminal."""
    room = _window()
    lines = [text]
    if room is not None:
        lines = textwrap.wrap(text, room - indent, break_long_words=False, break_on_hyphens=False)
    for line in lines:
        print(" " * indent + line)


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table to stdout. If it is too wide for the terminal, its text is wrapped between words. Nothing is cropped."""
    head, *lines = Table(tuple(header), list(rows)).lines(_window())
    print("\n".join([f"\x1b[1m{head}\x1b[0m" if colours() else head, *lines]))
