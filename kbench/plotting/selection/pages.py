"""What runs along x, what is a panel and what is a picture of its own: no line ever joins two configurations.

The integer axis with the most values is x, and a provider with its parameters is a line; whatever else varies (dtype,
another axis, a choice, the device, the timer) is a panel, unless it goes with x one to one. Two exceptions: where nothing
runs along x there are bars, and where a parameter sweep has more curves than there are colours, the parameter becomes x and
the axis a panel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from kbench.errors import UsageError
from kbench.plotting.selection.points import ABSENT, VALUE
from kbench.plotting.style.marks import MARKS
from kbench.plotting.style.theme import MARKERS
from kbench.results.row import PROVIDER, curve_name, format_params
from kbench.text.suggest import unknown

MAX_PANELS = 4
"""Panels of a picture, unless `--by` asks for more."""

MAX_BY = 9
MAX_PICTURES = 24


@dataclass(frozen=True)
class Panel:
    """`where`: what it alone shows, in columns and values."""

    where: dict[str, Any]
    points: pd.DataFrame


@dataclass(frozen=True)
class Page:
    """The panels of one picture, and the values by which it differs from the other pictures."""

    fixed: dict[str, Any]
    panels: list[Panel]

    @property
    def points(self) -> pd.DataFrame:
        return pd.concat([panel.points for panel in self.panels])

    def whole(self, columns: Sequence[str]) -> dict[str, Any]:
        """Those of the columns that have one value on the whole page, and the value."""
        points = self.points
        known = [name for name in columns if name in points and points[name].nunique(dropna=False) == 1]
        return {name: points[name].iloc[0] for name in known}


def along(
    drawn: pd.DataFrame, axes: Sequence[str], wanted: str | None, *, parameters: bool = True
) -> tuple[pd.DataFrame, str]:
    """`drawn` with a column `x`, and what it is: an axis or, with `parameters`, a swept one. `wanted` is the user's choice.

    A curve without that parameter has NaN for x and is drawn as a level; its rows without a value have no place for a mark,
    so that they become ABSENT. The name is "" where there is no number to
    draw against. Raises UsageError for an x that there is not.
    """
    values = drawn[drawn["kind"] == VALUE]
    sizes = {axis: int(values[axis].nunique()) for axis in axes if pd.api.types.is_integer_dtype(drawn[axis])}
    params = [parameters_of(text) for text in drawn["params"]]
    numbers = {
        name: pd.Series([_number(row.get(name, "")) for row in params], drawn.index, "float64")
        for name in sorted({name for row in params for name in row if parameters})
    }
    swept = {name: int(column.nunique()) for name, column in numbers.items() if column.nunique()}
    if wanted is not None and wanted not in (*sizes, *swept):
        known = ", ".join([*sizes, *swept]) or "none that is a number"
        raise UsageError(f"nothing called {wanted!r} to draw against (--x); there are {known}")
    name = wanted or _longest(values, sizes, swept)
    if name not in numbers:
        x = drawn[name].astype("float64") if name else math.nan
        by_axis: pd.DataFrame = drawn.assign(x=x)
        return by_axis, name
    curves = [
        curve if math.isnan(number) else curve_along(provider, text, name)
        for curve, provider, text, number in zip(
            drawn["curve"], drawn["provider"], drawn["params"], numbers[name], strict=True
        )
    ]
    placeless = numbers[name].isna() & drawn["kind"].isin(list(MARKS))
    by_parameter: pd.DataFrame = drawn.assign(
        x=numbers[name],
        curve=pd.Series(curves, drawn.index, dtype="str"),
        kind=drawn["kind"].mask(placeless, ABSENT),
    )
    return by_parameter, name


def curve_along(provider: str, params: str, name: str) -> str:
    """What a curve is called where its parameter `name` runs along x: `triton-row[num_warps=*]`."""
    known = parameters_of(params)
    if math.isnan(_number(known.get(name, ""))):
        return curve_name(provider, params)
    return curve_name(provider, format_params({**known, name: "*"}))


def _longest(values: pd.DataFrame, sizes: dict[str, int], swept: dict[str, int]) -> str:
    """The axis with the most values, or the parameter that takes its place; of equals the last."""
    axis = max(sizes, key=lambda name: (sizes[name], list(sizes).index(name)), default="")
    curves = values.loc[values["role"] == PROVIDER, "curve"].nunique()
    if curves <= len(MARKERS) or not swept:
        return axis
    parameter = max(swept, key=lambda name: swept[name])
    return parameter if swept[parameter] >= max(2, sizes.get(axis, 0)) else axis


def companions(drawn: pd.DataFrame, axes: Sequence[str], x: str) -> dict[str, str]:
    """Axes that go with x, and how: every value of x has a value of theirs to itself, as in a sweep of pairs whose product is
    the same. They choose nothing, so they make no panels."""
    found = {}
    for axis in axes if x in axes else ():
        if axis == x:
            continue
        pairs = drawn[[x, axis]].drop_duplicates()
        if len(pairs) > 2 and pairs[x].is_unique and pairs[axis].is_unique:
            first, last = (pairs.sort_values(x).iloc[end] for end in (0, -1))
            found[axis] = f"{axis} goes with {x}: {first[axis]} at {first[x]}, {last[axis]} at {last[x]}"
    return found


def split(
    drawn: pd.DataFrame,
    columns: Sequence[str],
    by: Sequence[str] = (),
    room: int = MAX_PANELS,
    room_by: int = MAX_BY,
) -> list[Page]:
    """One page per combination of what varies and does not fit into the panels of one picture.

    `by` names the columns whose values are panels, at most `room_by`; without it there are up to `room`. Raises UsageError
    where that would be too many panels or pictures, with what to do.
    """
    shown = drawn[drawn["kind"] != ABSENT]
    varying = [name for name in columns if shown[name].nunique(dropna=False) > 1]
    if strange := [name for name in by if name not in columns]:
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
        raise UsageError(f"that would be {len(pages)} pictures{_advice(shown, varying)}")
    return pages


def _page(fixed: dict[str, Any], points: pd.DataFrame, varying: list[str]) -> Page:
    inner = [name for name in varying if name not in fixed and points[name].nunique(dropna=False) > 1]
    return Page(fixed, [Panel(where, group) for where, group in _groups(points, inner)])


def _fitting(points: pd.DataFrame, varying: list[str], room: int) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Split on as few columns as needed, in their order, for at most `room` combinations on a page."""
    if not varying or len(points[varying].drop_duplicates()) <= room:
        yield {}, points
        return
    first, *others = varying
    for fixed, group in _groups(points, [first]):
        for more, page in _fitting(group, others, room):
            yield {**fixed, **more}, page


def _groups(points: pd.DataFrame, names: list[str]) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    if not names:
        yield {}, points
        return
    for values, group in points.groupby(names, dropna=False):
        yield dict(zip(names, values, strict=True)), group


def _advice(points: pd.DataFrame, varying: list[str]) -> str:
    """How to choose, with a value that is in the file."""
    counts = ", ".join(f"{points[name].nunique(dropna=False)} of {name}" for name in varying)
    most = max(varying, key=lambda name: points[name].nunique(dropna=False))
    example = f"--where '{most}={points[most].iloc[0]}'"
    return f" ({counts}); narrow them with {example}, draw against another axis with --x, or choose panels with --by"


def parameters_of(text: str) -> dict[str, str]:
    """`num_warps=4,num_stages=1`, as the CSV writes it, taken apart."""
    return {name: value for name, _, value in (item.partition("=") for item in text.split(",")) if name}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
