"""`kbench compare`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from kbench import comparison, terminal
from kbench.comparison import render

NOTHING_IN_COMMON = 3


def compare(old: Path, new: Path, *, fail_on: str | None, markdown: Path | None) -> int:
    """Print the verdicts, and as Markdown where asked. Returns the exit code."""
    found = comparison.compare(old, new)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 80
    print(render.text(found, width))
    if markdown:
        markdown.write_text(render.markdown(found) + "\n")
    passed = comparison.gate(found, {word.strip() for word in (fail_on or "").split(",") if word.strip()})
    if not passed:
        terminal.error(f"the gate failed: {render.summary(found)} (--fail-on {fail_on})")
        return 1
    return 0 if found.comparable else NOTHING_IN_COMMON
