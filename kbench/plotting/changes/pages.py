"""The pages of a comparison: what runs along x, and what is a panel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from kbench.comparison import report
from kbench.comparison.model import Comparison
from kbench.errors import ResultsError, UsageError
from kbench.plotting.changes.rows import change_rows
from kbench.plotting.selection.along import companions, most_values, no_such_x, numeric
from kbench.plotting.selection.pages import Page, Panel, split_into_pages

MOST_PANELS = 24
"""Of a picture."""

MOST_PICTURES = 4
"""Where the panels need more pictures, the rows become a list, unless the user asks for panels."""

LEAST_SIZES = 3
"""Values of an axis that make a sweep."""


@dataclass(frozen=True)
class Changes:
    """What all pages of a comparison share.

    x        the axis that runs along x, "" where there is no sweep
    columns  the columns that identify a row
    notes    sentences about the axes, for the caption
    """

    comparison: Comparison
    x: str
    columns: list[str]
    notes: list[str]


def pages(comparison: Comparison, x: str | None = None, by: Sequence[str] = ()) -> tuple[Changes, list[Page]]:
    """The pages of a comparison: sweeps along a size, or a list where there is no sweep.

    `x` chooses the axis and `by` the columns whose values become panels. Raises UsageError for an unknown axis or column,
    ResultsError where no row has a change.
    """
    rows, axes, columns = change_rows(comparison)
    if rows.empty or rows["effect"].isna().all():
        counts = report.summary(comparison)
        raise ResultsError(
            f"no change to draw: no row has times that can be compared ({counts}); kbench compare shows the reasons"
        )
    sizes = {axis: int(rows[axis].nunique()) for axis in numeric(rows, axes)}
    if x is not None and x not in sizes:
        raise no_such_x(x, axes, list(sizes))
    if unknown := [name for name in by if name not in columns]:
        raise UsageError(f"--by: unknown column {unknown[0]!r}; choose from {', '.join(columns)}")
    along = x or most_values(rows, sizes)
    paired = companions(rows, axes, along)
    beside = [name for name in columns if name != along and name not in paired]
    of_panel = rows.groupby(beside, dropna=False)[along].nunique().max() if along else 0
    panels = rows[beside].drop_duplicates()
    if len(panels) > MOST_PANELS:  # columns with few values make the pictures
        beside.sort(key=lambda name: rows[name].nunique(dropna=False))
    if (
        x is None
        and not by
        and (of_panel < LEAST_SIZES or len(panels) > max(MOST_PANELS, _panels_that_fit(panels[beside])))
    ):
        return Changes(comparison, "", columns, []), [Page({}, [Panel({}, rows)])]
    found = split_into_pages(rows, beside, by, MOST_PANELS, MOST_PANELS)
    return Changes(comparison, along, columns, list(paired.values())), found


def _panels_that_fit(panels: pd.DataFrame) -> int:
    """The number of panels that MOST_PICTURES hold, with a picture for each value of the first column that varies."""
    counts = [panels[name].nunique(dropna=False) for name in panels]
    varying = [count for count in counts if count > 1]
    return MOST_PANELS * varying[0] if varying and varying[0] <= MOST_PICTURES else 0
