"""From rows to pages: which rows of results files are drawn, as what, where along x, in which panel and in which picture.

A configuration is drawn as a series. Each of its rows becomes a value or a mark: readers see where a time is missing.
Whatever varies besides x makes panels, and pictures where the panels are too many: no line joins rows that differ in more.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from statistics import median
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from matplotlib.figure import Figure

from kbench.analysis.cases import distrusted, key_of
from kbench.analysis.files import ResultsFile
from kbench.analysis.metrics import Metric
from kbench.errors import ResultsError, UsageError
from kbench.plotting.names import four_digits, shorten, title_of
from kbench.plotting.style import LINES, MARK_SHAPES, Style, Theme, provider_of, styles
from kbench.results.case import LIKE_NUMBER, configuration_name, value_order
from kbench.results.row import COLUMNS, CONDITION_COLUMNS, Row
from kbench.results.vocabulary import Control, Flag, Status
from kbench.text.suggest import unknown

COPY_CURVE = "copy (control)"
"""The curve of the copy control."""

HOLLOW = frozenset({Flag.HOST_BOUND.value, Flag.OVERHEAD_BOUND.value})
"""Flags of times that depend more on the host or the timer than on the kernel. Their points are drawn hollow."""

MANY_CURVES = 8
"""With more curves a swept parameter runs along x. There are as many colours."""


MAX_PANELS = 4
"""The most panels of a picture without `--by`."""

MAX_BY = 9
"""The most panels of a picture with `--by`, and of bars."""

MAX_PICTURES = 24
"""The most pictures of one call."""


class Placed(Protocol):
    """What pictures divide into panels, by the columns of `where`: "" or nothing for one that a file lacks."""

    @property
    def where(self) -> Mapping[str, Any]: ...


class Value(NamedTuple):
    """A value with its band, the 20th to the 80th percentile, and the flags of HOLLOW."""

    value: float
    low: float
    high: float
    hollow: frozenset[str]

    @classmethod
    def pooled(cls, points: Iterable[Point]) -> Value | None:
        """The median of the values of some points, with the widest band. None without a value."""
        values = [point.value for point in points if point.value is not None]
        if not values:
            return None
        middles, lows, highs, flags = zip(*values, strict=True)
        return cls(median(middles), min(lows), max(highs), frozenset().union(*flags))


@dataclass
class Point:
    """A row in a picture.

    where    what was measured, and how: file, operator, conditions, dtype and axes
    value    of the metric; a suspect row has `claimed` in its place
    x        None where nothing runs along x, and for a curve that is the same at each x, because it lacks the parameter
    """

    row: Row
    file: str
    curve: str
    where: dict[str, Any]
    value: Value | None = None
    claimed: float | None = None
    x: float | None = None

    @property
    def has_value(self) -> bool:
        return self.value is not None or self.claimed is not None

    @property
    def mark(self) -> Status | None:
        """The status that is drawn as a mark, for want of a value."""
        return None if self.has_value or self.row.status not in MARK_SHAPES else self.row.status

    @property
    def drawn(self) -> bool:
        """Whether it is drawn as a value or a mark. The caption counts the others."""
        return self.has_value or self.mark is not None


@dataclass(frozen=True)
class Series:
    """The rows of a configuration of a file in a panel, by x, in its order. `name` is what to print for it."""

    file: str
    curve: str
    name: str
    style: Style
    by_x: Mapping[float, Sequence[Point]]

    @property
    def points(self) -> list[Point]:
        return [point for points in self.by_x.values() for point in points]

    @cached_property
    def values(self) -> dict[float, Value]:
        """By x. Suspect rows have none."""
        pooled = {x: Value.pooled(points) for x, points in self.by_x.items()}
        return {x: value for x, value in pooled.items() if value is not None}

    @cached_property
    def whole(self) -> Value | None:
        """The value of a series of a single x. None without one."""
        return Value.pooled(self.points)

    @property
    def last(self) -> float:
        """The value at the largest x, minus infinity if there is none."""
        return [-math.inf, *(value.value for value in self.values.values())][-1]

    @property
    def marks(self) -> dict[Status, list[float]]:
        """The places of rows without a value, by their status."""
        places: dict[Status, list[float]] = defaultdict(list)
        for x, points in self.by_x.items():
            for status in sorted({point.mark for point in points if point.mark}):
                places[status].append(x)
        return places


def series_of(points: Sequence[Point], look: Look) -> list[Series]:
    """The series of a panel, by file and name. A point without an x stands at each x of the panel."""
    xs = {point.x for point in points if point.x is not None} or {0.0}
    groups: dict[tuple[str, str], dict[float, list[Point]]] = defaultdict(lambda: defaultdict(list))
    for point in points:
        for x in xs if point.x is None else (point.x,):
            groups[point.file, point.curve][x].append(point)
    series = []
    for (file, curve), by_x in sorted(groups.items()):
        name, style = look.names[curve], look.styles[curve]
        if len(look.files) > 1:
            name, style = f"{name} · {file}", replace(style, line=look.line(file))
        series.append(Series(file, curve, name, style, dict(sorted(by_x.items()))))
    return series


def points_of(sources: Sequence[ResultsFile], metric: Metric) -> list[Point]:
    """The rows of all providers and of the copy control, if the metric has it. A configuration that is wrong or suspect in a
    session of a case has no time of another one. Raises ResultsError if no provider has a value."""
    points = []
    axes = axes_of(sources)
    for source in sources:
        lost = distrusted(source.rows) if metric.timed else set()
        for row in source.rows:
            is_copy = row.control is Control.COPY and metric.has_copy
            is_valid = row.status is Status.OK and Flag.SUSPECT not in row.flags
            is_lost = is_valid and (key_of(row), row.configuration_name) in lost
            if is_copy or (row.of_provider and not is_lost):
                points.append(_point(row, source.label, axes, metric))
    of_providers = [point for point in points if point.row.of_provider]
    if not any(point.has_value for point in of_providers):
        counts = Counter(point.row.status.value for point in of_providers)
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


def _point(row: Row, file: str, axes: Sequence[str], metric: Metric) -> Point:
    curve = COPY_CURVE if row.control is Control.COPY else row.configuration_name
    point = Point(row, file, curve, where_of(row, file, axes))
    cell: float | None = getattr(row, metric.column)
    if cell is None or cell < 0 or (metric.timed and cell == 0) or row.status.failed:
        return point
    flags = row.flags if metric.timed else ()
    if Flag.SUSPECT in flags:
        point.claimed = cell * metric.scale
        return point
    ends = [getattr(row, f"{metric.column}_{end}", None) for end in ("p20", "p80")]
    band = [metric.scale * end for end in (cell, *ends) if end is not None]
    point.value = Value(band[0], min(band), max(band), HOLLOW.intersection(flags))
    return point


def where_of(row: Row, file: str, axes: Iterable[str]) -> dict[str, Any]:
    """What was measured, and how, by the columns that divide pictures into panels."""
    conditions = {name: getattr(row, name) for name in CONDITION_COLUMNS}
    case = {"operator": row.case.operator, "dtype": row.case.dtype}
    return {"file": file, **case, **conditions, **dict.fromkeys(axes, ""), **row.case.axes}


def fixed_columns(points: Iterable[Point], axes: Sequence[str]) -> list[str]:
    """The columns whose values must be equal along a line. Device, timer and cache are among them where they vary within a
    file: each file has lines of its own. Failed rows do not count: they may have planned values only, or none."""
    measured = [point for point in points if not point.row.status.failed]
    conditions = []
    for name in CONDITION_COLUMNS:
        values = {(point.file, point.where[name]) for point in measured if point.where[name]}
        if len(values) > len({file for file, _ in values}):
            conditions.append(name)
    return ["operator", *conditions, "dtype", *axes]


def place_along_x(points: Sequence[Point], axes: Sequence[str], chosen: str | None, *, parameters: bool) -> str:
    """Give each point its x. Return the name of the axis or, with `parameters`, the parameter that x is; "" for none.

    Without a choice of the user, a swept parameter takes the place of the axis where there are MANY_CURVES and it has at
    least as many values. Raises UsageError where `chosen` cannot run along x.
    """
    values = [point for point in points if point.has_value]
    sizes = numbers_of(values, axes)
    swept: dict[str, set[float]] = defaultdict(set)
    for point in points if parameters else ():
        for name, number in _numbers_in(point.row.params).items():
            swept[name].add(number)
    name = choose_axis(sizes | swept if chosen else sizes, chosen, axes)
    curves = {point.curve for point in values if point.row.of_provider}
    if not chosen and len(curves) > MANY_CURVES and swept:
        parameter = max(sorted(swept), key=lambda name: len(swept[name]))
        name = parameter if len(swept[parameter]) >= max(2, len(sizes.get(name, ()))) else name
    for point in points:
        if name not in swept:
            point.x = float(point.where[name]) if name and point.where[name] != "" else None
        elif name in (numbers := _numbers_in(point.row.params)):
            point.x = numbers[name]
            params = re.sub(rf"(?<![^,]){re.escape(name)}=[^,]*", f"{name}=*", point.row.params)
            point.curve = configuration_name(point.row.provider, params)
    return name


@cache
def _numbers_in(params: str) -> dict[str, float]:
    """The numbers in the cell `num_warps=4,num_stages=1`, by the parameter."""
    items = (item.partition("=") for item in params.split(","))
    return {name: float(value) for name, _, value in items if LIKE_NUMBER.fullmatch(value)}


def numbers_of(points: Iterable[Placed], axes: Iterable[str]) -> dict[str, set[float]]:
    """The values of the axes and scalars that hold numbers, not words or booleans."""
    members = list(points)
    values = {axis: {point.where[axis] for point in members} - {""} for axis in axes}
    return {axis: some for axis, some in values.items() if some and {int, float} >= {*map(type, some)}}


def choose_axis(numbers: Mapping[str, Collection[float]], chosen: str | None = None, axes: Collection[str] = ()) -> str:
    """The chosen name, or else the one with the most values, of equals the last; "" if there is none. Sizes that vary come
    before other numbers. Raises UsageError where `chosen` is none of `axes`, or holds no numbers."""

    def rank(name: str) -> tuple[bool, bool, int, int]:
        whole = all(isinstance(number, int) for number in numbers[name])
        return len(numbers[name]) > 1, whole, len(numbers[name]), [*numbers].index(name)

    if chosen is not None and chosen not in numbers:
        no_numbers = f"{chosen!r} holds no numbers; choose from {', '.join(numbers) or 'none'}"
        raise UsageError(f"--x: {no_numbers if chosen in axes else unknown('axis', chosen, [*numbers] or [*axes])}")
    return chosen or max(numbers, key=rank, default="")


def companions(points: Iterable[Placed], axes: Sequence[str], x: str) -> dict[str, str]:
    """Axes that vary one to one with x, as sizes with a constant product do, and a sentence on each. They make no panels."""
    members, sentences = list(points), {}
    for axis in axes if x in axes else ():
        pairs = {(point.where[x], point.where[axis]) for point in members}
        one_to_one = len(pairs) == len({size for size, _ in pairs}) == len({value for _, value in pairs})
        if axis != x and one_to_one and len(pairs) > 2:
            ends = [f"{axis}={value} at {x}={size}" for size, value in (min(pairs), max(pairs))]
            sentences[axis] = f"{axis} varies with {x}: {', '.join(ends)}"
    return sentences


P = TypeVar("P", bound=Placed)


@dataclass(frozen=True)
class Picture:
    """A figure, what it shows as a part of a file name ("" or `float16-M64`), and the curves of each panel of lines."""

    combination: str
    figure: Figure
    curves: Sequence[Sequence[Series]] = ()


@dataclass(frozen=True)
class Page(Generic[P]):
    """The panels of one picture.

    fixed   the columns and values in which it differs from the other pictures
    titles  of the panels: the columns and values in which each differs from the panels beside it
    panels  the points of each
    """

    fixed: dict[str, Any]
    titles: list[str]
    panels: list[list[P]]

    @classmethod
    def of(cls, fixed: dict[str, Any], points: Sequence[P], columns: Sequence[str]) -> Page[P]:
        """A page with a panel for each combination of the columns that vary."""
        wheres, panels = zip(*groups(points, varying(points, columns)), strict=True)
        return cls(fixed, [*map(title_of, wheres)], [*panels])

    @property
    def points(self) -> list[P]:
        return [point for panel in self.panels for point in panel]

    def whole(self, columns: Sequence[str]) -> dict[str, Any]:
        """The columns among these that have one value on the whole page, with that value."""
        points = self.points
        several = varying(points, columns)
        return {name: points[0].where.get(name, "") for name in columns if name not in several}


@dataclass(frozen=True)
class Look:
    """How the curves of all panels look, and what the axes of the panels are.

    kind    lines, bars or heatmap
    x       the name of what runs along x, "" for nothing
    y       the name of the other axis of a map of winners, "" for none
    paired  the axes that vary one to one with x
    titled  the columns that a title names where a page has one value of them
    curves  that are shown
    """

    kind: str
    metric: Metric
    theme: Theme
    sources: Sequence[ResultsFile]
    x: str
    paired: Sequence[str]
    titled: Sequence[str]
    caption: str
    curves: frozenset[str]
    y: str = ""

    @cached_property
    def styles(self) -> dict[str, Style]:
        """By curve. A provider has the same colour in all pictures of a file: curves that are not shown take part in the choice
        while there are enough colours. A bar has its name beside it, so its colour is that of its provider."""
        curves = self.curves - {COPY_CURVE}
        everyone = curves.union(row.configuration_name for source in self.sources for row in source.whole.provider_rows)
        curves = everyone if len(everyone) <= len(self.theme.colours) else curves
        chosen = styles({provider_of(curve) for curve in curves} if self.kind == "bars" else curves, self.theme)
        if self.kind == "bars":
            chosen = {curve: chosen[provider_of(curve)] for curve in curves}
        return {**chosen, COPY_CURVE: Style(self.theme.quiet, "", "-")}

    @cached_property
    def names(self) -> dict[str, str]:
        """What to print for a curve."""
        return shorten(self.styles)

    @property
    def files(self) -> list[str]:
        return [source.label for source in self.sources]

    def title(self, page: Page[Any]) -> str:
        """What all panels of a page have in common."""
        return title_of(page.whole(self.titled))

    def line(self, file: str) -> Any:
        """The line style of a file. With several files each has its own, and a colour is a provider."""
        return LINES[self.files.index(file) % len(LINES)]

    def agreed(self, quantity: str, panel: Iterable[Series]) -> float | None:
        """`peak_gbps` or `cache_bytes` of the machines of a panel; None where they differ."""
        files = {series.file for series in panel}
        values = {getattr(source.environment, quantity) for source in self.sources if source.label in files}
        return (values.pop() or None) if len(values) == 1 else None

    def levels(self, panel: Sequence[Series], top: float) -> dict[str, float]:
        """Limits of the device by name with value: of its memory for GB/s, of its arithmetic for TFLOP/s. Those far above
        `top`, the end of the axis that the values need, are left out."""
        named: dict[str, float | None] = {}
        if self.metric.name == "gbps":
            named["theoretical"] = self.agreed("peak_gbps", panel)
        if self.metric.name == "tflops":
            ceilings = [point.row.ceiling_tflops for series in panel for point in series.points]
            named["large matmul"] = median([ceiling for ceiling in ceilings if ceiling is not None] or [0.0])
        levels = {}
        for name, level in named.items():
            if level and level < 2 * top:
                number = four_digits(level) if level < 100 else f"{level:.0f}"
                levels[f"{name} {number}"] = level
        return levels


def shared_limits(limits: list[tuple[float, float]], look: Look) -> list[tuple[float, float]]:
    """The limits of the panels of a page: the same for all, unless that would press one of them flat."""
    tops = [top for _, top in limits]
    logarithmic = any(bottom > 0 for bottom, _ in limits)
    if logarithmic or look.metric.lower_is_better or max(tops) > 4 * min(tops):
        return limits
    return [(0.0, max(tops))] * len(limits)


def split_into_pages(shown: Sequence[P], columns: Sequence[str], by: Sequence[str], room: int) -> list[Page[P]]:
    """The pages for these points, with panels for the columns that vary. `by` names the columns that make the panels. Without
    it the last columns make them, as many as there is room for. Raises UsageError for too many panels or pictures."""
    divided = varying(shown, columns)
    for name in by:
        if name not in columns and (name in COLUMNS or name in shown[0].where):
            choices = ", ".join(columns)
            raise UsageError(f'--by: "{name}" cannot divide the rows into panels; choose from {choices}')
        if name not in columns:
            raise UsageError(f"--by: {unknown('column', name, list(columns))}")
    # on as few of the columns as possible
    splits = [divided[:count] for count in range(len(divided) + 1)]
    if by:
        splits = [[name for name in divided if name not in by]]
    for outer in splits:
        pages = [Page.of(fixed, points, divided) for fixed, points in groups(shown, outer)]
        most = max(len(page.panels) for page in pages)
        if most <= room:
            break
    if most > room:
        raise UsageError(f"{most} panels in one picture are too many{_fewer(shown, divided)}")
    if len(pages) > MAX_PICTURES:
        raise UsageError(f"this would draw {len(pages)} pictures, the limit is {MAX_PICTURES}{_fewer(shown, divided)}")
    return pages


def combinations(points: Iterable[Placed], names: Sequence[str]) -> set[tuple[Any, ...]]:
    """The values that occur together in these columns."""
    return {tuple(point.where.get(name, "") for name in names) for point in points}


def varying(points: Sequence[Placed], columns: Iterable[str]) -> list[str]:
    return [name for name in columns if len(combinations(points, [name])) > 1]


def groups(points: Sequence[P], names: Sequence[str]) -> Iterator[tuple[dict[str, Any], list[P]]]:
    """The points by their values in some columns, in the order of these values."""
    members: dict[tuple[Any, ...], list[P]] = defaultdict(list)
    for point in points:
        members[tuple(point.where.get(name, "") for name in names)].append(point)
    for values in sorted(members, key=lambda values: [*map(value_order, values)]):
        yield dict(zip(names, values, strict=True)), members[values]


def _fewer(points: Sequence[Placed], columns: list[str]) -> str:
    """How to narrow the choice, with an example from the file."""
    counts = {name: len(combinations(points, [name])) for name in columns}
    most = max(columns, key=lambda name: counts[name])
    listed = ", ".join(f"{count} values of {name}" for name, count in counts.items())
    fewer = "name fewer files" if most == "file" else f"select rows with --where '{most}={points[0].where[most]}'"
    return f" ({listed}); {fewer}, choose another horizontal axis with --x, or choose the panels with --by"
