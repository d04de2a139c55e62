"""Where runs lie along x: at their dates, or in their order if a date is not known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, date2num, num2date
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
LONG_DAYS, SHORT_DAYS = 300, 4
"""Ticks of a longer axis have months and years, those of a shorter one also hours."""

ONE_TICK_DAYS = 1 / 24
"""A shorter axis has one tick, at its first run: matplotlib finds no dates for a few ticks there."""

ROOM = 0.02
"""Free space at both ends, as a share of the axis."""


@dataclass(frozen=True)
class TimeAxis:
    """`places` has the x of each run. `dated` says whether it is a date, in days. The axis reaches from the first to the last
    run of `ends`."""

    places: tuple[float, ...]
    dated: bool
    ends: tuple[int, int]

    @classmethod
    def of(cls, moments: Sequence[str], ends: tuple[int, int]) -> TimeAxis:
        """The axis for the times at which runs began, in ISO 8601 and in order."""
        dates = [_date(moment) for moment in moments]
        known = [date for date in dates if date is not None]
        if len(known) == len(dates):
            return cls(tuple(map(float, date2num(known))), True, ends)  # type: ignore[no-untyped-call]
        return cls(tuple(float(place) for place in range(len(dates))), False, ends)

    def before(self, run: int) -> float:
        """The middle between a run and the one before it."""
        return (self.places[max(run - 1, 0)] + self.places[run]) / 2

    def draw(self, axes: Axes, ticks: int) -> None:
        """Set the limits and about `ticks` ticks."""
        low, high = (self.places[run] for run in self.ends)
        room = ROOM * (high - low) or 0.5
        axes.set_xlim(low - room, high + room)
        if not self.dated:
            axes.xaxis.set_major_locator(MaxNLocator(ticks, integer=True))
            axes.set_xlabel("run")
            return
        most = max(ticks if high - low >= SHORT_DAYS else ticks // 2, 2)
        if high - low < ONE_TICK_DAYS:
            axes.xaxis.set_major_locator(FixedLocator([low]))
        else:
            axes.xaxis.set_major_locator(AutoDateLocator(minticks=1, maxticks=most))  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: _tick(x, high - low)))


def _tick(x: float, days: float) -> str:
    moment = num2date(x)  # type: ignore[no-untyped-call]
    month = MONTHS[moment.month - 1]
    if days > LONG_DAYS:
        return f"{month} {moment.year}"
    return f"{moment.day} {month}" + (f" {moment:%H:%M}" if days < SHORT_DAYS else "")


def _date(moment: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(moment)
    except ValueError:
        return None
    found = found if found.tzinfo else found.replace(tzinfo=UTC)
    return found if 1970 < found.year < 3000 else None  # matplotlib has no ticks for the year 1
