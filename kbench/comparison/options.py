"""What the caller of a comparison asks for, and the rules of judging that follow from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from kbench.analysis.metrics import COMPARED, Metric, metric_by_name
from kbench.comparison.gate import Gate
from kbench.errors import UsageError
from kbench.text.suggest import unknown

MAX_LOG_RATIO = 700.0
"""The largest logarithm of a ratio that a float can hold. An interval without bounds is cut here."""

Grouping = Literal["file", "provider"]


@dataclass(frozen=True)
class CompareOptions:
    """What the caller of a comparison chooses beside its files. The command line and the Python API both make one.

    by        what the sides are: results files, or the providers of one file
    baseline  label of the side to compare with; None means the first file, or the baseline of the config
    where     which rows to compare, as kbench/results/row_filter.py reads it
    metric    column to compare
    margin    smallest change of interest, as a share. None means 2 % between files. Between providers it means that every
              change above the noise counts.
    vary      names of what differs on purpose: `torch`, `driver`, `device`
    fail_on   verdicts that fail the gate
    strict    rows that were measured in different ways on the two sides do not pass the gate

    Raises UsageError for a value that cannot be used.
    """

    by: str = "file"
    baseline: str | None = None
    where: str = ""
    metric: str = "ms"
    margin: float | None = None
    vary: tuple[str, ...] = ()
    fail_on: tuple[str, ...] = ()
    strict: bool = False

    def __post_init__(self) -> None:
        if self.by not in get_args(Grouping):
            raise UsageError(f"--by: {unknown('grouping', self.by, get_args(Grouping))}")
        metric_by_name(self.metric, COMPARED)
        if self.margin is not None and not 0 < self.margin < 1:
            raise UsageError("--margin: must be more than 0% and less than 100%; give a share such as 2% or 0.02")

    @property
    def rules(self) -> Rules:
        rules = Rules(frozenset(self.vary), self.by == "provider", self.metric)
        return rules if self.margin is None else Rules(rules.vary, rules.paired, rules.metric, self.margin, asked=True)

    @property
    def gate(self) -> Gate:
        """Raises UsageError for a word in `fail_on` that is not a verdict."""
        return Gate.of(self.fail_on, self.strict)


@dataclass(frozen=True)
class Rules:
    """How rows are judged.

    vary    conditions that differ on purpose
    paired  the sides are providers of one file, so their sessions and rounds belong together
    metric  the column that is compared
    margin  the smallest change of interest, as a share
    asked   whether the caller chose the margin. Without that, the noise alone decides between providers of one file.
    """

    vary: frozenset[str] = frozenset()
    paired: bool = False
    metric: str = "ms"
    margin: float = 0.02
    asked: bool = False

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
