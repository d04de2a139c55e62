"""The times and speeds of a comparison in Bencher's format, for `bencher run --adapter json --file FILE`.

Bencher keeps the history and draws its own boundaries: it gets what was measured, and no verdicts. The format is that of
https://bencher.dev/docs/reference/bencher-metric-format.
"""

from __future__ import annotations

from kbench.comparison import Comparison
from kbench.comparison.presentation.measured import Spread, mapping, measured
from kbench.results.row import digest

LONGEST_NAME = 1024


def text(comparison: Comparison) -> str:
    """`latency` is Bencher's own measure, in ns; `gbps` is one that it makes for the project."""
    report = {}
    for found in measured(comparison):
        metrics = {"latency": found.ns} | ({"gbps": found.gbps} if found.gbps else {})
        report[_short(found.name)] = {measure: _metric(spread) for measure, spread in metrics.items()}
    return mapping(report)


def _metric(spread: Spread) -> dict[str, float]:
    return {"value": spread.value, "lower_value": spread.low, "upper_value": spread.high}


def _short(name: str) -> str:
    """A name that is not too long, and still no other's."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 13]} {digest(name)}"
