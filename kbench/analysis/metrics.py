"""What can be drawn: the columns of a results file that are worth a picture."""

from __future__ import annotations

from dataclasses import dataclass

from kbench.errors import UsageError
from kbench.results.row import Status
from kbench.text.suggest import unknown


@dataclass(frozen=True)
class Metric:
    """A column and how it is drawn.

    A `ratio` has a line at 1. `statuses` are the outcomes that have a value, and `may_be_zero` says whether 0 is one.
    `timed` is whether it comes from a time, so that what distorts times matters. What is drawn is the column's value
    times `scale`.
    """

    name: str
    column: str
    label: str
    lower_is_better: bool = False
    ratio: bool = False
    may_be_zero: bool = False
    timed: bool = True
    scale: float = 1.0
    statuses: tuple[Status, ...] = (Status.OK,)

    @property
    def has_copy(self) -> bool:
        """Whether the copy control is a line beside the providers, and not what they are divided by."""
        return self.name in ("gbps", "ms")


_ALL = (
    Metric("gbps", "gbps", "GB/s"),
    Metric("ms", "ms", "time (\N{MICRO SIGN}s)", lower_is_better=True, scale=1000.0),
    Metric("speedup", "speedup", "speed-up over the baseline", ratio=True),
    Metric("copy_fraction", "copy_fraction", "share of the copy's GB/s", ratio=True),
    Metric(
        "ulp",
        "max_ulp",
        "largest error (ulp)",
        lower_is_better=True,
        may_be_zero=True,
        timed=False,
        statuses=(Status.OK, Status.CHECKED),
    ),
)

METRICS = {metric.name: metric for metric in _ALL}


def metric_by_name(name: str) -> Metric:
    """The metric of this name. Raises UsageError for any other name."""
    if name not in METRICS:
        raise UsageError(f"--metric: {unknown('metric', name, list(METRICS))}")
    return METRICS[name]
