"""What is a panel and what is a picture of its own. No line ever joins rows that differ in more than x.

A provider with its parameters is a line. Whatever else varies (dtype, an axis that does not run along x, a choice, the
device, the timer) makes panels, and pictures where the panels are too many for one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from kbench.errors import UsageError
from kbench.plotting.points import ABSENT
from kbench.results.case import value_order
from kbench.text.suggest import unknown

MAX_PANELS = 4
"""The most panels of a picture without `--by`."""

MAX_BY = 9
"""The most panels of a picture with `--by`, and of bars."""

MAX_PICTURES = 24
"""The most pictures of one call."""


@dataclass(frozen=True)
class Panel:
    """The points of one panel. `where` are the columns and values in which it differs from the panels beside it."""

    where: dict[str, Any]
    points: pd.DataFrame


@dataclass(frozen=True)
class Page:
    """The panels of one picture. `fixed` are the columns and values in which it differs from the other pictures."""

    fixed: dict[str, Any]
    panels: list[Panel]

    @property
    def points(self) -> pd.DataFrame:
        return pd.concat([panel.points for panel in self.panels])

    def whole(self, columns: Sequence[str]) -> dict[str, Any]:
        """The columns among these that have one value on the whole page, with that value."""
        points = self.points
        single = [name for name in columns if name in points and points[name].nunique(dropna=False) == 1]
        return {name: points[name].iloc[0] for name in single}


def split_into_pages(
    drawn: pd.DataFrame,
    columns: Sequence[str],
    by: Sequence[str] = (),
    room: int = MAX_PANELS,
    room_by: int = MAX_BY,
) -> list[Page]:
    """The pages for these points: panels for the columns that vary, and several pages where one page has no room for them.

    `by` names the columns that make the panels, at most `room_by` of them. Without it a page has up to `room` panels.
    Raises UsageError for too many panels or pictures; the message says how to have fewer.
    """
    shown = drawn[drawn["kind"] != ABSENT]
    varying = [name for name in columns if shown[name].nunique(dropna=False) > 1]
    if strange := [name for name in by if name not in columns]:
        if strange[0] in drawn:
            raise UsageError(
                f'--by: "{strange[0]}" cannot divide the rows into panels; choose from {", ".join(columns)}'
            )
        raise UsageError(f"--by: {unknown('column', strange[0], list(columns))}")
    if by:
        outer = [name for name in varying if name not in by]
        pages = [_page(fixed, page, varying) for fixed, page in _groups(shown, outer)]
        room = room_by
    else:
        pages = [_page(fixed, page, varying) for fixed, page in _fitting(shown, varying, room)]
    most = max(len(page.panels) for page in pages)
    if most > room:
        raise UsageError(f"{most} panels in one picture are too many{_advice(shown, varying)}")
    if len(pages) > MAX_PICTURES:
        raise UsageError(f"this would draw {len(pages)} pictures, the limit is {MAX_PICTURES}{_advice(shown, varying)}")
    return pages


def _page(fixed: dict[str, Any], points: pd.DataFrame, varying: list[str]) -> Page:
    inner = [name for name in varying if name not in fixed and points[name].nunique(dropna=False) > 1]
    return Page(fixed, [Panel(where | _model_of(group, points), group) for where, group in _groups(points, inner)])


def _model_of(panel: pd.DataFrame, page: pd.DataFrame) -> dict[str, str]:
    """The models of the points of a panel, if the whole page has more of them."""
    if "model" not in page:
        return {}
    panel_models, all_models = (
        dict.fromkeys(name for cell in rows["model"] for name in cell.split(", ")) for rows in (panel, page)
    )
    return {"model": ", ".join(panel_models)} if len(panel_models) < len(all_models) else {}


def _fitting(points: pd.DataFrame, varying: list[str], room: int) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Groups of at most `room` combinations, split on as few of the columns as possible, in their order."""
    if not varying or len(points[varying].drop_duplicates()) <= room:
        yield {}, points
        return
    first, *others = varying
    for fixed, group in _groups(points, [first]):
        for more, page in _fitting(group, others, room):
            yield {**fixed, **more}, page


def _groups(points: pd.DataFrame, names: list[str]) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """The points by their values in some columns, in the order of these values."""
    if not names:
        yield {}, points
        return
    by = [points[name].map(value_order) if name == "mode" else points[name] for name in names]
    for _, group in points.groupby(by, dropna=False):
        yield {name: group[name].iloc[0] for name in names}, group


def _advice(points: pd.DataFrame, varying: list[str]) -> str:
    """How to narrow the choice, with an example from the file."""
    counts = ", ".join(f"{points[name].nunique(dropna=False)} values of {name}" for name in varying)
    most = max(varying, key=lambda name: points[name].nunique(dropna=False))
    example = f"--where '{most}={points[most].iloc[0]}'"
    return f" ({counts}); select rows with {example}, choose another horizontal axis with --x, or choose the panels with --by"
