"""`kbench plot`."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from kbench import plotting
from kbench.analysis.files import load_sources
from kbench.plotting import Choices
from kbench.results import table

PLAIN_WIDTH = 80
"""Where there is no terminal to measure, and COLUMNS does not say."""


def write(files: Sequence[str], out: Path | None, formats: str, where: str, choices: Choices) -> int:
    """Draw the files into one picture, the newest results when none is named, and print each path. Returns the exit code."""
    for path in plotting.write(_or_newest(files), choices, out, words(formats), where=where):
        print(path)
    return 0


def show(files: Sequence[str], where: str, choices: Choices) -> int:
    """Draw in the terminal; in ASCII where there is none, or one that wants no colour or no Unicode. Returns the exit code."""
    unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    plain = not sys.stdout.isatty() or not unicode or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    width = shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns  # what COLUMNS says comes first
    charts = plotting.terminal_charts(load_sources(_or_newest(files), where), choices, width, plain=plain)
    print("\n\n".join(charts))
    return 0


def words(text: str) -> list[str]:
    """`png,svg` taken apart."""
    return [word.strip() for word in text.split(",") if word.strip()]


def _or_newest(files: Sequence[str]) -> list[str]:
    return list(files) or [str(table.newest(Path("results")))]
