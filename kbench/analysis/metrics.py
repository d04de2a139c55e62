"""The metrics of `plot`, `report` and `compare`, each declared once: its column, label, unit and direction."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kbench.errors import UsageError
from kbench.results.row import COLUMNS, Row
from kbench.results.vocabulary import Status
from kbench.text.numbers import microseconds, speed
from kbench.text.suggest import unknown


@dataclass(frozen=True)
class Metric:
    """A column that can be drawn or compared.

    name             what `--metric` calls it
    quantity         what it measures, in sentences: "time"
    unit             the unit in which `compare` shows values
    title            the label of an axis, if that is not the heading of the column
    lower_is_better  whether less of it is better
    ratio            whether 1 has a meaning, so that axes have a line there
    timed            whether it follows from a time, so that whatever distorts times distorts it, and 0 is no value
    drifts           whether it contains the machine's drift. Ratios to a control of the same run do not
    has_copy         whether pictures show the copy control's value beside the providers'
    """

    name: str
    quantity: str
    unit: str
    title: str = ""
    lower_is_better: bool = False
    ratio: bool = False
    timed: bool = True
    drifts: bool = False
    has_copy: bool = False

    @property
    def column(self) -> str:
        """The column of the results file."""
        return "max_ulp" if self.name == "ulp" else self.name

    @property
    def label(self) -> str:
        return self.title or COLUMNS[self.column].heading("\N{MICRO SIGN}s" if self.unit == "us" else "")

    @property
    def scale(self) -> float:
        """Pictures show the column's values times this."""
        return {"us": 1000.0, "MiB": 2**-20}.get(self.unit, 1.0)

    @property
    def sign(self) -> int:
        """1 where more is better, -1 where less is."""
        return -1 if self.lower_is_better else 1

    def log_time(self, value: float) -> float:
        """The log of the time that a value stands for, up to a constant: more is slower in every metric."""
        return -self.sign * math.log(value)

    def written(self, value: float) -> str:
        """A value of the column in the unit, without naming the unit."""
        if self.unit == "%":
            return f"{value * 100:.1f}"
        return microseconds(value) if self.unit == "us" else speed(value)


METRICS = {
    metric.name: metric
    for metric in (
        Metric("gbps", "speed", "GB/s", drifts=True, has_copy=True),
        Metric("ms", "time", "us", lower_is_better=True, drifts=True, has_copy=True),
        Metric("speedup", "speed-up", "x", "speed-up over the baseline", ratio=True),
        Metric("copy_fraction", "share of copy", "%", "share of the copy's GB/s", ratio=True),
        Metric("tflops", "throughput", "TFLOP/s", drifts=True),
        Metric("sol", "sol", "%", "share of the speed of light", ratio=True),
        Metric("ulp", "error", "ulp", "largest error (ulp)", lower_is_better=True, timed=False),
        Metric("peak_bytes", "memory", "MiB", "peak memory of a call (MiB)", lower_is_better=True, timed=False),
        Metric("ms_min", "shortest time", "us", lower_is_better=True, drifts=True),
        Metric("launch_ms", "launch time", "us", lower_is_better=True),
        Metric("achieved_gbps", "traffic", "GB/s", drifts=True),
    )
}
"""By name. `plot` and `report` draw all of them, `compare` compares those that follow from a time."""


def default_metric(files: Iterable[Sequence[Row]]) -> str:
    """The metric that `plot` and `report` draw first, for the rows of each file.

    It is tflops if the operator of every timed row counts its operations, and arithmetic bounds some of them, as the summary of
    a run shows TFLOP/s then; gbps if a timed row has it; otherwise ms, which the rows of a script always have.
    """
    timed = [row for rows in files for row in rows if row.of_provider and row.status is Status.OK]
    if timed and all(row.tflops is not None for row in timed) and any(row.bound_by_arithmetic for row in timed):
        return "tflops"
    if timed and all(row.gbps is None for row in timed):
        return "ms"
    return "gbps"


def metric_by_name(name: str, *, timed: bool = False) -> Metric:
    """The metric of this name, if `timed` only one that follows from a time. Raises UsageError for any other name."""
    names = [metric.name for metric in METRICS.values() if metric.timed or not timed]
    if name not in names:
        raise UsageError(f"--metric: {unknown('metric', name, names)}")
    return METRICS[name]
