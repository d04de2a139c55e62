"""The times and speeds of a comparison in Bencher's format, for `bencher run --adapter json --file FILE`.

Bencher keeps the history and sets its own thresholds, so it gets measurements and no verdicts. The format is documented in
https://bencher.dev/docs/reference/bencher-metric-format.
"""

from __future__ import annotations

from kbench.comparison.model import Comparison
from kbench.comparison.presentation.measured import Spread, mapping, measured
from kbench.results.stamps import digest

LONGEST_NAME = 1024


def text(comparison: Comparison) -> str:
    """`latency` is Bencher's built-in measure, in ns; `gbps` is a measure that it creates for the project."""
    report = {}
    for found in measured(comparison):
        metrics = {"latency": found.ns} | ({"gbps": found.gbps} if found.gbps else {})
        report[_short(found.name)] = {measure: _metric(spread) for measure, spread in metrics.items()}
    return mapping(report)


def _metric(spread: Spread) -> dict[str, float]:
    return {"value": spread.value, "lower_value": spread.low, "upper_value": spread.high}


def _short(name: str) -> str:
    """A name of at most LONGEST_NAME characters that is still unique."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 13]} {digest(name)}"
