"""What the caller of `kbench history check` chooses."""

from __future__ import annotations

from dataclasses import dataclass

from kbench.comparison.verdict import Verdict
from kbench.errors import UsageError
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
        known = (CHANGE, *(kind.value for kind in CHANGE_KINDS))
        for word in self.fail_on:
            if word not in known:
                raise UsageError(f"--fail-on: {unknown('kind of change', word, known)}")

    @property
    def failing(self) -> tuple[Verdict, ...]:
        """The kinds that fail the gate."""
        return (
            CHANGE_KINDS
            if CHANGE in self.fail_on
            else tuple(kind for kind in CHANGE_KINDS if kind.value in self.fail_on)
        )
