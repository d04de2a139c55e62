"""`kbench plot`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kbench import plotting, table


def plot(files: Sequence[Path], metric: str, out: Path | None) -> int:
    """Draw each file; the newest results when none is named. Returns the exit code."""
    for path in files or [table.newest(Path("results"))]:
        for picture in plotting.write(path, metric, out or path.parent):
            print(picture)
    return 0
