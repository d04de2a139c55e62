"""The pages of a history: one for each machine and operator, with a panel for each case and a number for each event."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kbench.history.report import HistoryChange, HistoryReport
from kbench.history.timeline import Series
from kbench.plotting.style.formatting import natural_key

MOST_CASES = 12
"""A page with more panels could not be read. The cases with the largest changes are drawn."""

MOST_EVENTS = 10
"""Events with a number, the last ones. More would not fit below the panels."""


@dataclass(frozen=True)
class HistoryEvent:
    """The changes of a page in one run. `number` is 0 for an event that is too old to have one."""

    number: int
    run: int
    changes: tuple[HistoryChange, ...]


@dataclass(frozen=True)
class HistoryPanel:
    """The series of a case. `where` has its axes and dtype, `runs` the events that changed one of its series."""

    where: dict[str, Any]
    series: tuple[Series, ...]
    events: tuple[HistoryEvent, ...]


@dataclass(frozen=True)
class HistoryPage:
    """`cases` is the number of cases, drawn or not. `shared` are the axes and the dtype that all drawn cases have in common."""

    report: HistoryReport
    machine: str
    operator: str
    panels: tuple[HistoryPanel, ...]
    events: tuple[HistoryEvent, ...]
    cases: int
    shared: dict[str, Any]

    @cached_property
    def runs(self) -> list[int]:
        """The places of the runs that the page shows."""
        return sorted({point.run for panel in self.panels for each in panel.series for point in each.points})


def history_pages(report: HistoryReport) -> Iterator[HistoryPage]:
    """The pages of a history, in the order of machines and operators. A machine without any time has none."""
    groups: dict[tuple[str, str], list[Series]] = defaultdict(list)
    for each in report.series:
        groups[each.key.machine, each.key.operator].append(each)
    for (machine, operator), series in groups.items():
        if any(each.timed for each in series):
            yield _page(report, machine, operator, series)


def _page(report: HistoryReport, machine: str, operator: str, series: Sequence[Series]) -> HistoryPage:
    keys = {each.key for each in series}
    changes = [change for change in report.changes if change.series.key in keys]
    events = _numbered(changes)
    cases: dict[Any, list[Series]] = defaultdict(list)
    for each in series:
        cases[_case(each)].append(each)
    largest = dict.fromkeys(cases, 0.0)
    for change in changes:
        size = abs(math.log(change.ratio)) if change.ratio else math.inf
        case = change.series.key.axes, change.series.key.dtype
        largest[case] = max(largest[case], size)
    drawn = sorted(cases, key=lambda case: -largest[case])[:MOST_CASES]
    wheres = {case: {**dict(case[0]), "dtype": case[1]} for case in drawn}
    shared = {
        name: value
        for name, value in next(iter(wheres.values())).items()
        if all(where.get(name) == value for where in wheres.values())
    }
    panels = [
        HistoryPanel(
            {name: value for name, value in wheres[case].items() if name not in shared},
            tuple(cases[case]),
            tuple(
                event
                for event in events
                if any((change.series.key.axes, change.series.key.dtype) == case for change in event.changes)
            ),
        )
        for case in drawn
    ]
    panels.sort(key=lambda panel: [natural_key(value) for value in panel.where.values()])
    return HistoryPage(report, machine, operator, tuple(panels), tuple(events), len(cases), shared)


def _case(each: Series) -> tuple[Any, str]:
    return each.key.axes, each.key.dtype


def _numbered(changes: Sequence[HistoryChange]) -> list[HistoryEvent]:
    """The events in the order of time. The last ones have the numbers from 1 on."""
    runs: dict[int, list[HistoryChange]] = defaultdict(list)
    for change in changes:
        runs[change.event_run].append(change)
    skipped = max(0, len(runs) - MOST_EVENTS)
    return [HistoryEvent(max(0, place + 1 - skipped), run, tuple(runs[run])) for place, run in enumerate(sorted(runs))]
