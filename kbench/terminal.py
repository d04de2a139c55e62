"""How kbench prints: data to stdout, progress and warnings to stderr; without a terminal plain lines, nothing cropped."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

PLAIN_WIDTH = 2000
"""Width given to rich where there is no terminal: it would otherwise assume 80 columns and crop."""


def console(*, stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    if stream.isatty():
        return Console(stderr=stderr, highlight=False)
    return Console(stderr=stderr, highlight=False, width=PLAIN_WIDTH, height=100, soft_wrap=True)


def write(text: str) -> None:
    """Text to stdout. A reader that has gone, as `head` does, is no failure of what was to be told."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # what is still in the buffer must not fail at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def error(message: str) -> None:
    """One error for the person at the keyboard."""
    console(stderr=True).print(f"error: {message}", style="bold red", markup=False)


def warn(message: str) -> None:
    console(stderr=True).print(f"warning: {message}", style="yellow", markup=False)


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, numeric: Iterable[str] = ()) -> None:
    """A table on stdout. Columns named in `numeric` are right-aligned."""
    out = console()
    right = set(numeric)
    if not out.is_terminal:
        _print_plain(header, [list(row) for row in rows], right)
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in header:
        table.add_column(Text(name), justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    out.print(table)


def _print_plain(header: Sequence[str], rows: list[list[str]], right: set[str]) -> None:
    widths = [max(len(line[i]) for line in [list(header), *rows]) for i in range(len(header))]
    for line in [list(header), *rows]:
        cells = [
            cell.rjust(width) if name in right else cell.ljust(width)
            for cell, width, name in zip(line, widths, header, strict=True)
        ]
        print("  ".join(cells).rstrip())


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
