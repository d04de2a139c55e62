"""What the caller of a comparison asks for."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kbench.analysis.metrics import COMPARED, Metric, metric_by_name
from kbench.comparison.verdict import Verdict
from kbench.errors import UsageError
from kbench.text.suggest import unknown

MAX_LOG_RATIO = 700.0
"""The largest logarithm of a ratio that a float can hold. An interval without bounds is cut here."""

DEFAULT_MARGIN = 0.02


@dataclass(frozen=True)
class CompareOptions:
    """What the caller of a comparison chooses beside its files. The command line and the Python API both make one.

    where     which rows to compare, as kbench/results/row_filter.py reads it
    metric    column to compare
    margin    smallest change of interest, as a share
    vary      names of what differs on purpose: `torch`, `driver`, `device`
    fail_on   verdicts that fail the gate; without any, every comparison that decided something passes
    strict    rows that were measured in different ways on the two sides do not pass the gate

    Raises UsageError for a value that cannot be used.
    """

    where: str = ""
    metric: str = "ms"
    margin: float = DEFAULT_MARGIN
    vary: tuple[str, ...] = ()
    fail_on: tuple[str, ...] = ()
    strict: bool = False

    def __post_init__(self) -> None:
        metric_by_name(self.metric, COMPARED)
        if not 0 < self.margin < 1:
            raise UsageError("--margin: must be more than 0% and less than 100%; give a share such as 2% or 0.02")
        words = [verdict.value for verdict in Verdict]
        if strange := sorted(set(self.fail_on) - set(words)):
            raise UsageError(f"--fail-on: {unknown('verdict', strange[0], words)}")

    @property
    def failing(self) -> list[Verdict]:
        """The verdicts that fail the gate, in the order given."""
        return [Verdict(word) for word in dict.fromkeys(self.fail_on)]

    @property
    def gate_text(self) -> str:
        """The options of the gate as the caller wrote them; "" without any."""
        options = [f"--fail-on {','.join(self.failing)}"] if self.fail_on else []
        return " ".join([*options, *(["--strict"] if self.strict else [])])

    @property
    def compared(self) -> Metric:
        """The metric that is compared."""
        return COMPARED[self.metric]

    def ratio(self, effect: float) -> float:
        """The ratio of the metric for a change in log time."""
        return math.exp(min(max(-effect * self.compared.sign, -MAX_LOG_RATIO), MAX_LOG_RATIO))

    def interval(self, effect: float, half_width: float) -> tuple[float, float]:
        """The interval of that ratio, the lower end first."""
        ends = (self.ratio(effect - half_width), self.ratio(effect + half_width))
        return min(ends), max(ends)
