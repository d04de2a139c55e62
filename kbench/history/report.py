"""A judged history: what the caller chose, and the changes of the series."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from kbench.comparison.verdict import Verdict
from kbench.errors import UsageError
from kbench.history.moved import NOTHING, Moved
from kbench.history.timeline import RunPoint, Series, Timeline
from kbench.text.suggest import unknown

CHANGE = "change"
"""The word of `--fail-on` for all kinds of changes."""

CHANGE_KINDS = (
    Verdict.SLOWER, Verdict.FAILED, Verdict.MISSING, Verdict.FASTER, Verdict.FIXED, Verdict.NEW, Verdict.INCOMPARABLE,
)  # fmt: skip
"""The kinds of changes that can fail the gate, in the words of `kbench compare`. A change between two states without a time is
`untimed`, and fails no gate."""


@dataclass(frozen=True)
class HistoryOptions:
    """What the caller chooses.

    where       which series, as kbench/results/row_filter.py reads it
    margin      the smallest change of a time that counts, as a share
    recent      a change is recent if it began in the last so many runs of its operator and machine
    everything  report the changes that are not recent, too
    fail_on     kinds of changes that fail the gate, or `change` for all

    Raises UsageError for a value that cannot be used.
    """

    where: str = ""
    margin: float = 0.02
    recent: int = 10
    everything: bool = False
    fail_on: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.margin < 1:
            raise UsageError(f"--margin: {self.margin:.0%} is not between 0% and 100%; give a share such as 2% or 0.02")
        kinds = (CHANGE, *(kind.value for kind in CHANGE_KINDS))
        for word in self.fail_on:
            if word not in kinds:
                raise UsageError(f"--fail-on: {unknown('kind of change', word, kinds)}")

    def fails(self, kind: Verdict) -> bool:
        """Whether a recent change of this kind fails the gate."""
        return kind in CHANGE_KINDS and (CHANGE in self.fail_on or kind.value in self.fail_on)


@dataclass(frozen=True)
class HistoryChange:
    """A change of a series.

    at      the first point after the change, or the last of a series that ended; `before` is the last one before it
    runs    the places of the runs in which the change may have begun, the first and the last
    reason  why the series failed or is new; empty for a change of its level
    moved   what moved with it
    recent  whether it began in one of the last runs
    old_ms, new_ms, ratio, ci   the levels in ms without the drift of the machine, their quotient and its 95 % interval; None
                                if the status changed and not the level
    """

    kind: Verdict
    series: Series
    before: RunPoint
    at: RunPoint
    runs: tuple[int, int]
    reason: str = ""
    moved: Moved = NOTHING
    recent: bool = False
    old_ms: float | None = None
    new_ms: float | None = None
    ratio: float | None = None
    ci: tuple[float, float] | None = None

    @property
    def event_run(self) -> int:
        """The place of the run in which the change is said to be."""
        return self.at.run if self.ratio is not None else self.runs[0]


@dataclass(frozen=True)
class HistoryReport:
    """A judged history. `series` are the chosen ones, and `changes` are in the order of time. `notes` are on files of the
    folder."""

    path: Path
    options: HistoryOptions
    timeline: Timeline
    series: tuple[Series, ...]
    changes: tuple[HistoryChange, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def reported(self) -> tuple[HistoryChange, ...]:
        """The changes that the options ask for."""
        return tuple(change for change in self.changes if change.recent or self.options.everything)

    @cached_property
    def failing(self) -> tuple[HistoryChange, ...]:
        """The recent changes that fail the gate."""
        return tuple(change for change in self.changes if change.recent and self.options.fails(change.kind))

    @property
    def corrected(self) -> bool:
        """Whether the drift of the machine was subtracted from any time."""
        return any(point.corrected for series in self.series for point in series.timed)

    @property
    def timed(self) -> bool:
        """Whether any series has a time."""
        return any(series.timed for series in self.series)
