"""From rows to points: which rows of results files are drawn, and as what.

A configuration is drawn as a curve. Each of its rows becomes a value or a mark: readers see where a time is missing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from kbench.analysis.files import ResultsFile
from kbench.analysis.metrics import Metric
from kbench.errors import ResultsError
from kbench.results.case import configuration_name
from kbench.results.row import CONDITION_COLUMNS
from kbench.results.vocabulary import Control, Flag, Role, Status

COPY_CURVE = "copy (control)"
"""The curve of the copy control."""

VALUE, WRONG, FAILED, DECLINED, ABSENT = "value", "wrong", "failed", "declined", ""
"""The kind of a row in a picture. ABSENT rows are not drawn; the caption counts them."""

MARKED = (WRONG, FAILED, DECLINED)
"""Kinds of rows that have no value and are drawn as a mark."""

KIND_OF_STATUS = {Status.WRONG.value: WRONG, Status.UNSUPPORTED.value: DECLINED} | {
    status.value: FAILED for status in (Status.TAMPERED, Status.ERROR, Status.OOM, Status.TIMEOUT, Status.CRASHED)
}
"""The mark of a row without a value, by its status. Other statuses are ABSENT."""

HOLLOW = (Flag.HOST_BOUND, Flag.OVERHEAD_BOUND)
"""Flags of times that depend more on the host or the timer than on the kernel. Their points are drawn hollow."""


def points(sources: Sequence[ResultsFile], metric: Metric) -> pd.DataFrame:
    """The rows of all providers and of the copy control, with these columns added:

    file, curve       the line that the row belongs to
    kind              VALUE, WRONG, FAILED, DECLINED or ABSENT
    value, low, high  the metric and its 20th and 80th percentile, where the file has them; NaN in suspect rows
    suspect, hollow   whether the row has the flag `suspect`, or one of HOLLOW
    claimed           the value of a suspect row, NaN for all others
    bytes             what a call has to move (gbps x ms)

    Raises ResultsError when no provider has a value.
    """
    drawn = pd.concat([_points_of(source, metric) for source in sources], ignore_index=True)
    words = drawn.select_dtypes(exclude=["number", "bool"]).columns
    drawn[words] = drawn[words].fillna("")
    drawn["model"] = drawn["model"].str.replace(";", ", ")
    if not ((drawn["role"] == Role.PROVIDER) & (drawn["kind"] == VALUE)).any():
        counts = drawn.loc[drawn["role"] == Role.PROVIDER, "status"].value_counts().sort_index()
        outcomes = ", ".join(f"{count} {status}" for status, count in counts.items()) or "no rows of providers at all"
        where = ", ".join(str(source.path) for source in sources)
        advice = _advice(set(counts.index))
        raise ResultsError(f"{where}: no row has {metric.name} to plot ({outcomes}); {advice}")
    return drawn


def _advice(statuses: set[str]) -> str:
    """What to do if rows with these statuses have no value to draw."""
    if not statuses:
        return "run the sweep again, or name another CSV"
    if Status.OK in statuses:
        return "choose another --metric"
    if statuses == {Status.CHECKED.value}:
        return "these rows were checked, but not timed: run the config on an accelerator, or choose --metric ulp"
    return "see the column `reason`"


def curves_of(rows: pd.DataFrame) -> pd.Series[str]:
    """The curve of each row, COPY_CURVE for the copy control, "" for the other controls."""
    copy = (rows["role"] == Role.CONTROL) & (rows["provider"] == Control.COPY)
    names = [configuration_name(*pair) for pair in zip(rows["provider"], rows["params"], strict=True)]
    curves = pd.Series(names, rows.index, dtype="str")
    return curves.mask(rows["role"] != Role.PROVIDER, "").mask(copy, COPY_CURVE)


def kinds_of(rows: pd.DataFrame, metric: Metric) -> pd.Series[str]:
    """The kind of each row: VALUE where it has the metric, else the mark of its status, else ABSENT."""
    values = rows[metric.column]
    enough = values >= 0 if metric.may_be_zero else values > 0
    if metric.timed:  # an edited row can have a speed and no time
        enough &= (rows["ms"] > 0) & (rows["ms"] < math.inf)
    has_value = enough & (values < math.inf) & rows["status"].isin([status.value for status in metric.statuses])
    return rows["status"].map(KIND_OF_STATUS).fillna(ABSENT).mask(has_value, VALUE)


def fixed_columns(drawn: pd.DataFrame, sources: Sequence[ResultsFile]) -> list[str]:
    """The columns whose values must be equal along a line: what was measured, and how.

    Device, timer and cache are among them where they vary within a file. Files may differ in them, because each file has
    lines of its own. Failed rows do not count: after the loss of a worker a row has only planned values, or none.
    """
    by_file = drawn[drawn["status"].map(KIND_OF_STATUS) != FAILED].groupby("file")
    how = [name for name in CONDITION_COLUMNS if (by_file[name].nunique() > 1).any()]
    return ["operator", *how, "dtype", *dict.fromkeys(axis for source in sources for axis in source.axes)]


def hollow_flags(panel: pd.DataFrame) -> set[str]:
    """The flags of HOLLOW that values of a panel have. The copy has no points, so its flags are not among them."""
    flags = panel.loc[panel["hollow"] & panel["value"].notna() & (panel["curve"] != COPY_CURVE), "flags"]
    return {flag for text in flags for flag in text.split(";")} & set(HOLLOW)


def pool(drawn: pd.DataFrame, by: str | list[str]) -> pd.DataFrame:
    """One point per value of `by`: the median over sessions and the widest band."""
    return drawn.groupby(by, dropna=False).agg(
        value=("value", "median"),
        low=("low", "min"),
        high=("high", "max"),
        claimed=("claimed", "median"),
        hollow=("hollow", "any"),
    )


def _points_of(source: ResultsFile, metric: Metric) -> pd.DataFrame:
    curves = curves_of(source.frame)
    shown = (curves != "") & ((curves != COPY_CURVE) | metric.has_copy | (source.frame["role"] == Role.PROVIDER))
    rows = source.frame[shown]
    kind = kinds_of(rows, metric)
    has_value = kind == VALUE
    ends = (metric.column, f"{metric.column}_p20", f"{metric.column}_p80")
    spread = metric.scale * rows[[name for name in ends if name in rows]]
    value = metric.scale * rows[metric.column].where(has_value)
    flags = rows["flags"].map(lambda flags: set(flags.split(";")) if metric.timed else set())
    suspect = flags.map(lambda raised: Flag.SUSPECT in raised).astype(bool) & has_value
    drawn: pd.DataFrame = rows.assign(
        file=source.label,
        curve=curves[shown],
        kind=kind,
        value=value.mask(suspect),
        low=spread.min(axis=1).where(has_value & ~suspect),
        high=spread.max(axis=1).where(has_value & ~suspect),
        claimed=value.where(suspect),
        suspect=suspect,
        hollow=flags.map(lambda raised: not raised.isdisjoint(HOLLOW)).astype(bool),
        bytes=(rows["gbps"] * rows["ms"] * 1e6).round(),  # whole, without float noise
    )
    return drawn
