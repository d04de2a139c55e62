"""What is a panel and what is a picture of its own, and what all panels share. No line ever joins rows that differ in more
than x.

A provider with its parameters is a line. Whatever else varies (dtype, an axis that does not run along x, a choice, the
device, the timer) makes panels, and pictures where the panels are too many for one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

from kbench.analysis.files import ResultsFile
from kbench.analysis.metrics import Metric
from kbench.errors import UsageError
from kbench.plotting.names import shorten
from kbench.plotting.points import COPY_CURVE, Placed, Series
from kbench.plotting.style import LINES, Style, Theme, provider_of, styles
from kbench.results.case import value_order
from kbench.results.row import COLUMNS
from kbench.text.suggest import unknown

MAX_PANELS = 4
"""The most panels of a picture without `--by`."""

MAX_BY = 9
"""The most panels of a picture with `--by`, and of bars."""

MAX_PICTURES = 24
"""The most pictures of one call."""

P = TypeVar("P", bound=Placed)


@dataclass(frozen=True)
class Panel(Generic[P]):
    """The points of one panel. `where` are the columns and values in which it differs from the panels beside it."""

    where: dict[str, Any]
    points: list[P]


@dataclass(frozen=True)
class Page(Generic[P]):
    """The panels of one picture. `fixed` are the columns and values in which it differs from the other pictures."""

    fixed: dict[str, Any]
    panels: list[Panel[P]]

    @property
    def points(self) -> list[P]:
        return [point for panel in self.panels for point in panel.points]

    def whole(self, columns: Sequence[str]) -> dict[str, Any]:
        """The columns among these that have one value on the whole page, with that value."""
        values = {name: _values(self.points, name) for name in columns}
        return {name: members.pop() for name, members in values.items() if len(members) == 1}


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
        """By curve.

        Curves that are not shown take part in the choice of colours while there are enough colours, so that a provider
        has the same colour in all pictures of a file. A bar has its name beside it, so its colour is that of its provider,
        whatever the parameters.
        """
        curves = self.curves - {COPY_CURVE}
        everyone = curves.union(row.configuration_name for source in self.sources for row in source.whole.provider_rows)
        curves = everyone if len(everyone) <= len(self.theme.colours) else curves
        if self.kind == "bars":
            of_providers = styles({provider_of(curve) for curve in curves}, self.theme)
            chosen = {curve: of_providers[provider_of(curve)] for curve in curves}
        else:
            chosen = styles(curves, self.theme)
        return {**chosen, COPY_CURVE: Style(self.theme.quiet, "", "-")}

    @cached_property
    def names(self) -> dict[str, str]:
        """What to print for a curve."""
        return shorten(self.styles)

    @property
    def files(self) -> list[str]:
        """The labels of the files."""
        return [source.label for source in self.sources]

    def line(self, curve: str, file: str) -> Any:
        """The line style of a curve. With several files each file has its own, and a colour is a provider."""
        return self.styles[curve].line if len(self.files) == 1 else LINES[self.files.index(file) % len(LINES)]

    def agreed(self, quantity: str, panel: Iterable[Series]) -> float | None:
        """`peak_gbps` or `cache_bytes` of the machines of a panel; None where they differ."""
        files = {series.file for series in panel}
        values = {getattr(source.environment, quantity) for source in self.sources if source.label in files}
        return (values.pop() or None) if len(values) == 1 else None

    def peak(self, panel: Iterable[Series]) -> float | None:
        """The theoretical bandwidth in GB/s. None where the picture does not show bandwidths."""
        return self.agreed("peak_gbps", panel) if self.metric.name == "gbps" else None


def shared_limits(limits: list[tuple[float, float]], look: Look) -> list[tuple[float, float]]:
    """The limits of the panels of a page: the same for all, unless that would press one of them flat."""
    tops = [top for _, top in limits]
    logarithmic = any(bottom > 0 for bottom, _ in limits)
    if logarithmic or look.metric.lower_is_better or max(tops) > 4 * min(tops):
        return limits
    return [(0.0, max(tops))] * len(limits)


def split_into_pages(
    shown: Sequence[P],
    columns: Sequence[str],
    by: Sequence[str],
    room: int,
) -> list[Page[P]]:
    """The pages for these points: panels for the columns that vary, and several pages where one page has no room for them.

    `by` names the columns that make the panels. Without it a page has as many as there is room for.
    Raises UsageError for too many panels or pictures; the message says how to have fewer.
    """
    varying = [name for name in columns if len(_values(shown, name)) > 1]
    if strange := [name for name in by if name not in columns]:
        if strange[0] in COLUMNS or strange[0] in shown[0].where:
            raise UsageError(
                f'--by: "{strange[0]}" cannot divide the rows into panels; choose from {", ".join(columns)}'
            )
        raise UsageError(f"--by: {unknown('column', strange[0], list(columns))}")
    if by:
        outer = [name for name in varying if name not in by]
        pages = [page_of(fixed, points, varying) for fixed, points in groups(shown, outer)]
    else:
        pages = [page_of(fixed, points, varying) for fixed, points in _fitting(shown, varying, room)]
    most = max(len(page.panels) for page in pages)
    if most > room:
        raise UsageError(f"{most} panels in one picture are too many{_advice(shown, varying)}")
    if len(pages) > MAX_PICTURES:
        raise UsageError(f"this would draw {len(pages)} pictures, the limit is {MAX_PICTURES}{_advice(shown, varying)}")
    return pages


def combinations(points: Iterable[Placed], names: Sequence[str]) -> set[tuple[Any, ...]]:
    """The values that occur together in these columns."""
    return {tuple(point.where.get(name, "") for name in names) for point in points}


def _values(points: Iterable[Placed], name: str) -> set[Any]:
    return {point.where.get(name, "") for point in points}


def page_of(fixed: dict[str, Any], points: Sequence[P], columns: Sequence[str]) -> Page[P]:
    """A page with a panel for each combination of the columns that vary."""
    inner = [name for name in columns if name not in fixed and len(_values(points, name)) > 1]
    return Page(fixed, [Panel(where, group) for where, group in groups(points, inner)])


def _fitting(points: Sequence[P], varying: list[str], room: int) -> Iterator[tuple[dict[str, Any], Sequence[P]]]:
    """Groups of at most `room` combinations, split on as few of the columns as possible, in their order."""
    if not varying or len(combinations(points, varying)) <= room:
        yield {}, points
        return
    first, *others = varying
    for fixed, group in groups(points, [first]):
        for more, page in _fitting(group, others, room):
            yield {**fixed, **more}, page


def groups(points: Sequence[P], names: Sequence[str]) -> Iterator[tuple[dict[str, Any], list[P]]]:
    """The points by their values in some columns, in the order of these values."""
    members: dict[tuple[Any, ...], list[P]] = defaultdict(list)
    for point in points:
        members[tuple(point.where.get(name, "") for name in names)].append(point)
    for values in sorted(members, key=lambda values: [value_order(value) for value in values]):
        yield dict(zip(names, values, strict=True)), members[values]


def _advice(points: Sequence[Placed], varying: list[str]) -> str:
    """How to narrow the choice, with an example from the file."""
    counts = {name: len(_values(points, name)) for name in varying}
    most = max(varying, key=lambda name: counts[name])
    listed = ", ".join(f"{count} values of {name}" for name, count in counts.items())
    fewer = "name fewer files" if most == "file" else f"select rows with --where '{most}={points[0].where[most]}'"
    return f" ({listed}); {fewer}, choose another horizontal axis with --x, or choose the panels with --by"
