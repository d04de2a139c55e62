"""`kbench report`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kbench.reporting import write as write_page
from kbench.results import table


def write(files: Sequence[str], out: Path, baseline: str | None, where: str, title: str) -> int:
    """Write the page on the files, the newest results when none is named, and print its path. Returns the exit code."""
    chosen = list(files) or [str(table.newest(Path("results")))]
    print(write_page(chosen, out, baseline=baseline, where=where, title=title))
    return 0
