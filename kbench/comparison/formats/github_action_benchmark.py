"""The speeds of a comparison for the action github-action-benchmark, with `tool: customBiggerIsBetter`.

The action keeps the history, draws the chart and compares with the last commit by itself. Its format is documented in
https://github.com/benchmark-action/github-action-benchmark.
"""

from __future__ import annotations

from kbench.comparison import Comparison
from kbench.comparison.presentation.header import quantity_of
from kbench.comparison.presentation.measured import array, measured
from kbench.comparison.presentation.words import sentence
from kbench.text.terminal import microseconds


def text(comparison: Comparison) -> str:
    """An entry for each row whose GB/s are known; `range` is half of what its sessions span, or its rounds."""
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
