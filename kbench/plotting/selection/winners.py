"""The cells of a map of winners: who wins each case, by how much, and whether the difference is more than noise."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pandas as pd

from kbench.analysis.files import ResultsFile
from kbench.errors import ResultsError, UsageError
from kbench.plotting.selection.along import most_values, numeric


def winners_of(
    sources: Sequence[ResultsFile], axes: Sequence[str], x: str, paired: Collection[str] = (), by: Collection[str] = ()
) -> tuple[pd.DataFrame, str]:
    """A row per case, and the name of the column that is y.

    The columns are file, operator, dtype, the axes, device, timer, cache, then curve, margin, tied, unclear and winner
    as `kbench.analysis.Winner` has them, `x` and `y`. y is the other axis with the most values. Where no other axis
    varies it is the dtype, and "" where the dtype does not vary either. Axes in `paired` and columns in `by` are never
    y: the ones go with x, the others make panels.

    Raises UsageError where x is no axis, ResultsError where no provider was timed.
    """
    found: list[dict[str, Any]] = []
    for source in sources:
        for won in source.analysis.winners:
            case = {"file": source.label, "operator": won.case.operator, "dtype": won.case.dtype, **won.case.axes}
            how = {"device": won.key.device, "timer": won.key.timer, "cache": won.key.cache}
            outcome = {
                "curve": won.configuration_name,
                "margin": won.margin,
                "tied": won.tied,
                "unclear": won.unclear,
                "winner": won,
            }
            found.append(case | how | outcome)
    if not found:
        paths = ", ".join(str(source.path) for source in sources)
        raise ResultsError(f"{paths}: every row is suspect or has no time; see the columns `reason` and `flags`")
    frame = pd.DataFrame(found)
    if x not in axes:
        raise UsageError("--kind heatmap needs an axis with whole numbers; choose one with --x, or use --kind bars")
    typed = frame[list(axes)].convert_dtypes()
    free = [name for name in numeric(typed, axes) if name not in (x, *paired, *by)]
    y = most_values(typed, {name: int(typed[name].nunique()) for name in reversed(free)})
    if not y or frame[y].nunique() == 1:
        y = "dtype" if frame["dtype"].nunique() > 1 and "dtype" not in by else ""
    heights = frame[y] if y == "dtype" else frame[y].astype("float64") if y else 0.0
    return frame.assign(x=frame[x].astype("float64"), y=heights, kind="value"), y
