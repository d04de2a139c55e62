"""Who wins each case, by how much, and whether that is more than noise."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pandas as pd

from kbench.analysis import Analysis, analyse, rows_of
from kbench.analysis.files import Source
from kbench.errors import ResultsError, UsageError

MEANING = "1.10x: the runner-up takes 10 % longer · ~: a tie · ?: too noisy to tell"
"""For the caption."""


OUTCOME = ("device", "timer", "cache", "curve", "margin", "tied", "unclear", "winner")


def analysis_of(source: Source) -> Analysis:
    """What `kbench.analysis` says of a file."""
    stated = source.environment.get("baseline")
    return analyse(rows_of(source.frame), stated if isinstance(stated, str) else None)


def noises(sources: Sequence[Source]) -> list[str]:
    """A line for the caption on how noisy each file is."""
    several = len(sources) > 1
    return [f"{source.label}: " * several + analysis_of(source).noise.sentence() for source in sources]


def winners_of(
    sources: Sequence[Source], axes: Sequence[str], x: str, paired: Collection[str] = (), by: Collection[str] = ()
) -> tuple[pd.DataFrame, str]:
    """A row per case with the columns file, operator, dtype, the axes, those of OUTCOME, `x` and `y`; and what y is: of
    the other axes the one with the most values or, where none of them has several, the dtype. It is "" where that has one
    value too. Axes that are `paired` with x have a value for each x, and what is in `by` makes panels: neither is y.

    Raises UsageError where there is no x, or nobody was timed.
    """
    found: list[dict[str, Any]] = []
    for source in sources:
        for won in analysis_of(source).winners:
            case = {"file": source.label, "operator": won.case.operator, "dtype": won.case.dtype, **won.case.axes}
            how = {"device": won.key.device, "timer": won.key.timer, "cache": won.key.cache}
            outcome = {
                "curve": won.curve,
                "margin": won.margin,
                "tied": won.tied,
                "unclear": won.unclear,
                "winner": won,
            }
            found.append(case | how | outcome)
    if not found:
        paths = ", ".join(str(source.path) for source in sources)
        raise ResultsError(f"{paths}: no time to win with, but for suspect ones; see the columns `reason` and `flags`")
    frame = pd.DataFrame(found)
    if x not in axes:
        raise UsageError("a heatmap runs along an axis of whole numbers; choose one with --x, or draw --kind bars")
    sizes = [
        name
        for name in axes
        if name not in (x, *paired, *by) and pd.api.types.is_integer_dtype(frame[name].convert_dtypes())
    ]
    y = max(sizes, key=lambda name: frame[name].nunique(), default="")
    if not y or frame[y].nunique() == 1:
        y = "dtype" if frame["dtype"].nunique() > 1 and "dtype" not in by else ""
    heights = frame[y] if y == "dtype" else frame[y].astype("float64") if y else 0.0
    return frame.assign(x=frame[x].astype("float64"), y=heights, kind="value"), y
