"""From rows to points: what of a results file is drawn, and as what.

A provider with its parameters is a curve. Its rows become values, or marks: a row without a time is not a gap that the
reader has to notice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from kbench.analysis.cases import SUSPECT
from kbench.analysis.files import Source
from kbench.analysis.metrics import Metric
from kbench.errors import ResultsError
from kbench.results import table
from kbench.results.row import CONTROL, PROVIDER, Status, curve_name

COPY = "copy (control)"

VALUE, WRONG, FAILED, DECLINED, ABSENT = "value", "wrong", "failed", "declined", ""
"""What a row is in the picture: a value, one of three marks, or nothing at all (the caption counts those)."""

_KINDS = {Status.WRONG.value: WRONG, Status.UNSUPPORTED.value: DECLINED} | {
    status.value: FAILED for status in (Status.ERROR, Status.OOM, Status.TIMEOUT, Status.CRASHED)
}

HOLLOW = ("host-bound", "overhead-bound")
"""Flags of times that say more about the host or the timer than about the kernel."""


def points(sources: Sequence[Source], metric: Metric) -> pd.DataFrame:
    """The rows of all providers and of the copy control, with these columns added:

    file, curve       whose line it belongs to
    kind              VALUE, WRONG, FAILED, DECLINED or ABSENT
    value, low, high  the metric and its 20th and 80th percentile, where it has them; a suspect row's are NaN
    suspect, hollow   what its flags say of the value
    claimed           the value of a suspect row, NaN for all others
    bytes             what a call has to move (gbps x ms)

    Raises UsageError when no provider has a value.
    """
    drawn = pd.concat([_of(source, metric) for source in sources], ignore_index=True)
    words = drawn.select_dtypes(exclude=["number", "bool"]).columns
    drawn[words] = drawn[words].fillna("")
    if not ((drawn["role"] == PROVIDER) & (drawn["kind"] == VALUE)).any():
        counts = drawn.loc[drawn["role"] == PROVIDER, "status"].value_counts().sort_index()
        found = ", ".join(f"{count} {status}" for status, count in counts.items()) or "no rows of providers at all"
        where = ", ".join(str(source.path) for source in sources)
        raise ResultsError(f"{where}: no row has {metric.name} to plot ({found}); see the column `reason`")
    return drawn


def axes(sources: Sequence[Source]) -> list[str]:
    """The axes and choices of all files."""
    return list(dict.fromkeys(axis for source in sources for axis in table.axes(source.frame)))


def configuration(drawn: pd.DataFrame, sources: Sequence[Source]) -> list[str]:
    """The columns that no line may join: what was measured, and how.

    Files may differ in how: each has its own lines. Within a file it splits the picture. Failed rows are not asked: one
    whose worker was lost says only what was planned, in older files nothing.
    """
    by_file = drawn[drawn["status"].map(_KINDS) != FAILED].groupby("file")
    how = [name for name in ("device", "timer", "cache") if (by_file[name].nunique() > 1).any()]
    return ["operator", *how, "dtype", *axes(sources)]


def raised(panel: pd.DataFrame) -> set[str]:
    """Which of the HOLLOW flags the values of a panel have."""
    flags = panel.loc[panel["hollow"] & panel["value"].notna(), "flags"]
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


def _of(source: Source, metric: Metric) -> pd.DataFrame:
    frame = source.frame
    copies = (frame["role"] == CONTROL) & (frame["provider"] == "copy") & metric.has_copy
    rows = frame[(frame["role"] == PROVIDER) | copies]
    ends = (metric.column, f"{metric.column}_p20", f"{metric.column}_p80")
    spread = metric.scale * rows[[name for name in ends if name in rows]]
    value = metric.scale * rows[metric.column].where(_known(rows, metric))
    flags = rows["flags"].map(lambda flags: set(flags.split(";")) if metric.timed else set())
    suspect = flags.map(lambda raised: SUSPECT in raised).astype(bool) & value.notna()
    curves = [
        COPY if role == CONTROL else curve_name(provider, params)
        for role, provider, params in zip(rows["role"], rows["provider"], rows["params"], strict=True)
    ]
    drawn: pd.DataFrame = rows.assign(
        file=source.label,
        curve=pd.Series(curves, rows.index, dtype="str"),
        kind=rows["status"].map(_KINDS).fillna(ABSENT).mask(value.notna(), VALUE),
        value=value.mask(suspect),
        low=spread.min(axis=1).where(value.notna() & ~suspect),
        high=spread.max(axis=1).where(value.notna() & ~suspect),
        claimed=value.where(suspect),
        suspect=suspect,
        hollow=flags.map(lambda raised: not raised.isdisjoint(HOLLOW)).astype(bool),
        bytes=(rows["gbps"] * rows["ms"] * 1e6).round(),  # whole, without float noise
    )
    return drawn


def _known(rows: pd.DataFrame, metric: Metric) -> pd.Series[bool]:
    values = rows[metric.column]
    enough = values >= 0 if metric.may_be_zero else values > 0
    return enough & (values < math.inf) & rows["status"].isin([status.value for status in metric.statuses])
