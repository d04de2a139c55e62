"""The speeds of a comparison for the action github-action-benchmark, with `tool: customBiggerIsBetter`.

The action itself keeps the history, draws the chart and compares with the last commit. Its format is documented in
https://github.com/benchmark-action/github-action-benchmark.
"""

from __future__ import annotations

from kbench.comparison.model import Comparison
from kbench.comparison.presentation.measured import array, measured
from kbench.comparison.presentation.report_lines import quantity_of
from kbench.comparison.presentation.wording import sentence
from kbench.text.terminal import microseconds


def text(comparison: Comparison) -> str:
    """An entry for each row with a known speed. `range` is half the span of its sessions, or of its rounds if there is one
    session."""
    shown = quantity_of(comparison)
    return array(
        {
            "name": found.name,
            "unit": "GB/s",
            "value": found.gbps.value,
            "range": f"± {(found.gbps.high - found.gbps.low) / 2:.4f}",  # the action reads two digits or more
            "extra": f"{microseconds(found.ns.value / 1e6)} us\n{sentence(found.row, shown)}",
        }
        for found in measured(comparison)
        if found.gbps
    )
