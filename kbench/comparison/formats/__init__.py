"""The formats of a comparison, a module each with `text(comparison) -> str`.

They share `kbench.comparison.presentation`: numbers and sentences, names and order of rows, and the lines around them. No
format judges: verdicts and their reasons come from `kbench.comparison`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from kbench.comparison.model import Comparison


def _format(module: str) -> Callable[[Comparison], str]:
    def text(comparison: Comparison) -> str:
        """Imports the format on first use: a comparison on the terminal needs no pydantic."""
        written: str = import_module(f"{__name__}.{module}").text(comparison)
        return written

    return text


FORMATS = {
    "markdown": _format("markdown"),
    "json": _format("json_report"),
    "csv": _format("csv_table"),
    "github": _format("github"),
}
"""The formats of `--export` by name. The table on the terminal is `terminal.text`, which takes a width and an order too."""
