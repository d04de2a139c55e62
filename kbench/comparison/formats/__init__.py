"""What a comparison is written as, a module per format: each has `text(comparison) -> str`.

`words` has the numbers and sentences that all of them share, `rows` the order and the names of rows, `header` what stands
above them. Nothing here judges: verdicts and their reasons come from `kbench.comparison`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from kbench.comparison import Comparison


def _format(module: str) -> Callable[[Comparison], str]:
    def text(comparison: Comparison) -> str:
        """Imported when it is asked for: a comparison on the terminal needs none of pydantic and ElementTree."""
        written: str = import_module(f"{__name__}.{module}").text(comparison)
        return written

    return text


FORMATS = {
    "markdown": _format("markdown"),
    "json": _format("json_report"),
    "csv": _format("csv_table"),
    "junit": _format("junit"),
    "github": _format("github"),
    "github-action-benchmark": _format("github_action_benchmark"),
    "bencher": _format("bencher"),
    "benchfmt": _format("benchfmt"),
}
"""What `--export` can write, by name. The terminal's table is `terminal.text`, which takes a width and an order besides."""
