"""From rows to series: which rows of results files are drawn, as what, and where along x.

A configuration is drawn as a series. Each of its rows becomes a value or a mark: readers see where a time is missing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from statistics import median
from typing import Any, NamedTuple, Protocol

from kbench.analysis.cases import key_of, suspects, wrongs
from kbench.analysis.files import ResultsFile
from kbench.analysis.metrics import Metric
from kbench.errors import ResultsError, UsageError
from kbench.results.case import LIKE_NUMBER, configuration_name, format_params
from kbench.results.row import CONDITION_COLUMNS, Row
from kbench.results.vocabulary import Control, Flag, Role, Status

COPY_CURVE = "copy (control)"
"""The curve of the copy control."""

VALUE, WRONG, FAILED, DECLINED, ABSENT = "value", "wrong", "failed", "declined", ""
"""The kind of a row in a picture. ABSENT rows are not drawn; the caption counts them."""

MARKED = (WRONG, FAILED, DECLINED)
"""Kinds of rows that have no value and are drawn as a mark."""

KIND_OF_STATUS = {Status.WRONG: WRONG, Status.UNSUPPORTED: DECLINED} | dict.fromkeys(
    (Status.TAMPERED, Status.ERROR, Status.OOM, Status.TIMEOUT, Status.CRASHED), FAILED
)
"""The mark of a row without a value, by its status. Other statuses are ABSENT."""

HOLLOW = {Flag.HOST_BOUND.value, Flag.OVERHEAD_BOUND.value}
"""Flags of times that depend more on the host or the timer than on the kernel. Their points are drawn hollow."""

MANY_CURVES = 8
"""With more curves a swept parameter runs along x. There are as many colours."""


class Placed(Protocol):
    """What pictures divide into panels. `where` has the columns by which they do, "" or nothing for one that a file lacks."""

    @property
    def where(self) -> Mapping[str, Any]: ...


@dataclass
class Point:
    """A row in a picture.

    where      what was measured, and how: file, operator, conditions, dtype and axes
    kind       VALUE, WRONG, FAILED, DECLINED or ABSENT
    value      the metric; None without one, and in suspect rows: theirs is `claimed`
    low, high  the 20th and 80th percentile of the metric, where the file has them
    hollow     the flags of HOLLOW that the row has
    x          None where nothing runs along x, and for a curve that lacks the parameter that does: it is the same at each x
    """

    row: Row
    file: str
    curve: str
    where: dict[str, Any]
    kind: str
    value: float | None = None
    low: float = 0.0
    high: float = 0.0
    claimed: float | None = None
    hollow: set[str] = field(default_factory=set)
    x: float | None = None


class Value(NamedTuple):
    """The value of a series at one x: the median over its sessions, with the widest band."""

    value: float
    low: float
    high: float
    hollow: bool


@dataclass(frozen=True)
class Series:
    """The rows of a configuration of a file in a panel, by x, in its order."""

    file: str
    curve: str
    by_x: Mapping[float, Sequence[Point]]

    @property
    def points(self) -> list[Point]:
        return [point for points in self.by_x.values() for point in points]

    @cached_property
    def values(self) -> dict[float, Value]:
        """By x. Suspect rows have none."""
        valued = {x: [point for point in points if point.value is not None] for x, points in self.by_x.items()}
        return {x: _pooled(points) for x, points in valued.items() if points}

    @property
    def last(self) -> float | None:
        """The value at the largest x."""
        return [*self.values.values()][-1].value if self.values else None

    @property
    def marks(self) -> dict[str, list[float]]:
        """The places of rows without a value, by their kind."""
        places = {
            kind: [x for x, points in self.by_x.items() if any(p.kind == kind for p in points)] for kind in MARKED
        }
        return {kind: xs for kind, xs in places.items() if xs}


def _pooled(points: Sequence[Point]) -> Value:
    first, *more = points
    value, low, high = first.value or 0.0, first.low, first.high
    if more:
        value = median(point.value or 0.0 for point in points)
        low, high = min(point.low for point in points), max(point.high for point in points)
    return Value(value, low, high, any(point.hollow for point in points))


def series_of(points: Iterable[Point]) -> list[Series]:
    """The series of a panel, by file and name. A point without an x stands at each x of the panel."""
    members = list(points)
    xs = {point.x for point in members if point.x is not None} or {0.0}
    groups: dict[tuple[str, str], dict[float, list[Point]]] = defaultdict(lambda: defaultdict(list))
    for point in members:
        for x in xs if point.x is None else (point.x,):
            groups[point.file, point.curve][x].append(point)
    return [Series(*key, {x: groups[key][x] for x in sorted(groups[key])}) for key in sorted(groups)]


# -- from rows to points


def points_of(sources: Sequence[ResultsFile], metric: Metric) -> list[Point]:
    """The rows of all providers and, if the metric has it, of the copy control. A configuration that is wrong or suspect in a
    session of a case has no time of another session. Raises ResultsError if no provider has a value."""
    points = []
    axes = axes_of(sources)
    for source in sources:
        lost = suspects(source.rows) | wrongs(source.rows) if metric.timed else set()
        for row in source.rows:
            is_copy = row.control is Control.COPY and metric.has_copy
            is_valid = row.status is Status.OK and Flag.SUSPECT not in row.flags
            is_lost = is_valid and (key_of(row), row.configuration_name) in lost
            if is_copy or (row.role is Role.PROVIDER and not is_lost):
                points.append(_point(row, source.label, axes, metric, is_copy=is_copy))
    rows = [point.row for point in points if point.row.role is Role.PROVIDER]
    if not any(point.kind == VALUE and point.row.role is Role.PROVIDER for point in points):
        counts = Counter(row.status.value for row in rows)
        outcomes = ", ".join(f"{counts[status]} {status}" for status in sorted(counts)) or "no rows of providers at all"
        where = ", ".join(str(source.path) for source in sources)
        raise ResultsError(f"{where}: no row has {metric.name} to plot ({outcomes}); {_advice({*counts})}")
    return points


def axes_of(sources: Sequence[ResultsFile]) -> list[str]:
    """The axes, scalars and choices of all files."""
    return list(dict.fromkeys(axis for source in sources for axis in source.axes))


def _advice(statuses: set[str]) -> str:
    """What to do if rows with these statuses have no value to draw."""
    if not statuses:
        return "run the sweep again, or name another CSV"
    if Status.OK in statuses:
        return "choose another --metric"
    if statuses == {Status.CHECKED.value}:
        return "these rows were checked, but not timed: run the config on an accelerator, or choose --metric ulp"
    return "see the column `reason`"


def _point(row: Row, file: str, axes: Sequence[str], metric: Metric, *, is_copy: bool) -> Point:
    where = where_of(row, file, axes)
    curve = COPY_CURVE if is_copy else row.configuration_name
    value: float | None = getattr(row, metric.column)
    enough = value is not None and (value > 0 or (metric.may_be_zero and value == 0))
    if value is None or not enough or row.status not in metric.statuses:
        return Point(row, file, curve, where, KIND_OF_STATUS.get(row.status, ABSENT))
    value *= metric.scale
    flags = set(row.flags) if metric.timed else set()
    point = Point(row, file, curve, where, VALUE, hollow=flags & HOLLOW)
    if Flag.SUSPECT in flags:
        point.claimed = value
        return point
    ends = [getattr(row, f"{metric.column}_{end}", None) for end in ("p20", "p80")]
    spread = [value, *(end * metric.scale for end in ends if end is not None)]
    point.value, point.low, point.high = value, min(spread), max(spread)
    return point


def where_of(row: Row, file: str, axes: Iterable[str]) -> dict[str, Any]:
    """What was measured, and how, by the columns that divide pictures into panels."""
    where: dict[str, Any] = {
        "file": file, "operator": row.case.operator, "dtype": row.case.dtype,
        "device": row.device, "timer": row.timer, "cache": row.cache,
    }  # fmt: skip
    where.update(dict.fromkeys(axes, ""))
    where.update(row.case.axes)
    return where


def fixed_columns(points: Iterable[Point], axes: Sequence[str]) -> list[str]:
    """The columns whose values must be equal along a line: what was measured, and how.

    Device, timer and cache are among them where they vary within a file. Files may differ in them, because each file has
    lines of its own. Failed rows do not count: after the loss of a worker a row has only planned values, or none.
    """
    measured = [point for point in points if KIND_OF_STATUS.get(point.row.status) != FAILED]
    conditions = []
    for name in CONDITION_COLUMNS:
        values = {(point.file, point.where[name]) for point in measured if point.where[name]}
        if len(values) > len({file for file, _ in values}):
            conditions.append(name)
    return ["operator", *conditions, "dtype", *axes]


# -- along x


def place_along_x(points: Sequence[Point], axes: Sequence[str], chosen: str | None, *, parameters: bool) -> str:
    """Give each point its x. Return the name of the axis or, with `parameters`, the parameter that x is; "" for none.

    `chosen` is the user's choice, otherwise it is the axis that `most_values` names. A swept parameter takes its place where
    there are MANY_CURVES and it has at least as many values. Raises UsageError where `chosen` cannot run along x.
    """
    values = [point for point in points if point.kind == VALUE]
    sizes = numbers_of(values, axes)
    swept = _swept_numbers(points) if parameters else {}
    if chosen is not None and chosen not in (*sizes, *swept):
        raise no_such_x(chosen, axes, [*sizes, *swept])
    name = chosen or most_values(sizes)
    curves = {point.curve for point in values if point.row.role is Role.PROVIDER}
    if not chosen and len(curves) > MANY_CURVES and swept:
        parameter = max(swept, key=lambda name: len(swept[name]))
        name = parameter if len(swept[parameter]) >= max(2, len(sizes.get(name, ()))) else name
    for point in points:
        if name in swept:
            _place_by_parameter(point, name)
        elif name and point.where[name] != "":
            point.x = float(point.where[name])
    return name


def _swept_numbers(points: Iterable[Point]) -> dict[str, set[str]]:
    """The values of every parameter that some row sets to a number."""
    numbers: dict[str, set[str]] = defaultdict(set)
    for params in {point.row.params for point in points}:
        for name, value in _parameters_of(params).items():
            if LIKE_NUMBER.fullmatch(value):
                numbers[name].add(value)
    return {name: numbers[name] for name in sorted(numbers)}


def _place_by_parameter(point: Point, name: str) -> None:
    params = _parameters_of(point.row.params)
    if LIKE_NUMBER.fullmatch(params.get(name, "")):
        point.x = float(params[name])
        point.curve = configuration_name(point.row.provider, format_params({**params, name: "*"}))


@cache
def _parameters_of(text: str) -> dict[str, str]:
    """The parameters in a `params` cell of a results file, such as `num_warps=4,num_stages=1`."""
    return {name: value for name, _, value in (item.partition("=") for item in text.split(",")) if name}


def numbers_of(points: Iterable[Placed], axes: Iterable[str]) -> dict[str, set[float]]:
    """The values of the axes and scalars that hold numbers, not words or booleans."""
    members = list(points)
    values = {axis: {point.where[axis] for point in members} - {""} for axis in axes}
    return {axis: numbers for axis, numbers in values.items() if numbers and all(map(_is_number, numbers))}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def most_values(numbers: Mapping[str, Collection[float]]) -> str:
    """The name with the most values, of equals the last; "" if there is none. Whole numbers that vary come before others: they
    are sizes."""

    def rank(name: str) -> tuple[bool, bool, int, int]:
        whole = all(isinstance(number, int) for number in numbers[name])
        return len(numbers[name]) > 1, whole, len(numbers[name]), [*numbers].index(name)

    return max(numbers, key=rank, default="")


def no_such_x(chosen: str, axes: Collection[str], possible: Sequence[str]) -> UsageError:
    """The error for an axis that cannot run along x: it is none of `axes`, or holds no numbers."""
    problem = f"{chosen!r} holds no numbers" if chosen in axes else f"unknown axis {chosen!r}"
    advice = f"choose from {', '.join(possible)}" if possible else "no axis holds numbers"
    return UsageError(f"--x: {problem}; {advice}")


def companions(points: Iterable[Placed], axes: Sequence[str], x: str) -> dict[str, str]:
    """Axes that vary one to one with x, and a sentence about each.

    They appear where a sweep lists pairs, for instance of sizes whose product is constant. They make no panels.
    """
    members, sentences = list(points), {}
    for axis in axes if x in axes else ():
        pairs = {(point.where[x], point.where[axis]) for point in members}
        one_to_one = len(pairs) == len({size for size, _ in pairs}) == len({value for _, value in pairs})
        if axis != x and one_to_one and len(pairs) > 2:
            ends = [f"{axis}={value} at {x}={size}" for size, value in (min(pairs), max(pairs))]
            sentences[axis] = f"{axis} varies with {x}: {', '.join(ends)}"
    return sentences
