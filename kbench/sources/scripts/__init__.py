"""Benchmark scripts that call `triton.testing.perf_report` or `do_bench`, run unchanged, and what they ask to measure."""

from __future__ import annotations

import os
from pathlib import Path

ROWS_FILE = "KBENCH_EXEC_ROWS"
"""The environment variable with the path of the file to which a program appends its rows."""

PROGRAM = "KBENCH_EXEC_PROGRAM"
"""The environment variable with the name of the program."""


def in_place_variables(messages: Path, name: str) -> dict[str, str]:
    """The environment variables with which the calls of do_bench of a program are measured in place."""
    package = Path(__file__).parents[2]
    searched = [str(package / "measure" / "scripts" / "at_start")]  # Python imports its sitecustomize.py
    if package.parent.name != "site-packages":
        searched.append(str(package.parent))
    before = os.environ.get("PYTHONPATH", "")
    return {
        ROWS_FILE: str(messages),
        PROGRAM: name,
        "PYTHONPATH": os.pathsep.join([*searched, *([before] if before else [])]),
    }
