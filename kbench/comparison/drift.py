"""What the machine did between two files, read from the `copy` controls: code that no change under test has touched."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from kbench import table
from kbench.comparison.join import CREDIBLE, CaseId
from kbench.results import CONTROL, Status

ENOUGH_CASES = 5
"""Fewer controls know the machine's drift no better than the rows themselves do."""

COPY, REPEAT = "copy", "repeat"


@dataclass(frozen=True)
class Drift:
    """How far each session's copies were from the mean of all sessions, in log time, by session number.

    `cases` is how many copies that is the median of; `noise` is what 95 % of the `repeat` controls of both files stay
    within: how far two readings of the same code in one session lie apart. `copies` has the change of each of those copies.
    """

    old: dict[int, float] = field(default_factory=dict)
    new: dict[int, float] = field(default_factory=dict)
    cases: int = 0
    noise: float = 0.0
    copies: dict[CaseId, float] = field(default_factory=dict)

    @property
    def change(self) -> float | None:
        """How much slower the machine became, in log time. None where the files share no control."""
        if not self.cases:
            return None
        return float(np.mean(list(self.new.values())) - np.mean(list(self.old.values())))

    @property
    def known(self) -> bool:
        """Whether there are enough controls to take the machine's share out of the rows."""
        return self.cases >= ENOUGH_CASES

    @property
    def removable(self) -> tuple[dict[int, float], dict[int, float]]:
        """What is taken out of the rows of either side's sessions: nothing where there are too few controls."""
        return (self.old, self.new) if self.known else ({}, {})

    def own(self, case: CaseId) -> float:
        """How far the copy of one case moved beyond what was taken out, in log time."""
        taken = (self.change or 0.0) if self.known else 0.0
        return abs(self.copies.get(case, taken) - taken)


def drift(old: pd.DataFrame, new: pd.DataFrame) -> Drift:
    """The drift between two frames that `table.read` returned, over the cases whose copy every session of both has."""
    axes = [axis for axis in table.axes(old) if axis in table.axes(new)]
    case = ["operator", *axes, "dtype", "device", "timer", "cache", "case_hash"]
    logs = pd.concat([_copies(frame, case).assign(side=side) for side, frame in enumerate((old, new))])
    seen = max(noise(old), noise(new))
    if logs.empty:
        return Drift(noise=seen)
    levels = logs.pivot_table(index=case, columns=["side", "session"], values="log_ms", observed=True).dropna()
    if levels.empty or set(levels.columns.get_level_values("side")) != {0, 1}:
        return Drift(noise=seen)
    moved = levels.sub(levels.mean(axis=1), axis=0).median()
    before, after = ({int(session): float(level) for session, level in moved[side].items()} for side in (0, 1))
    changes = levels[1].mean(axis=1) - levels[0].mean(axis=1)
    copies = {
        (operator, tuple(zip(axes, rest[: len(axes)], strict=True)), rest[len(axes)]): float(change)
        for (operator, *rest), change in changes.items()
    }
    return Drift(before, after, len(levels), seen, copies)


def _copies(frame: pd.DataFrame, case: list[str]) -> pd.DataFrame:
    copies = frame[_control(frame, COPY) & frame["ms"].between(*CREDIBLE)]
    logs: pd.DataFrame = copies[[*case, "session"]].assign(log_ms=np.log(copies["ms"]))
    return logs


def noise(frame: pd.DataFrame) -> float:
    """What 95 % of the `repeat` controls stay within of the baseline they repeat, as a share; 0 where there are none."""
    pairs = frame.loc[_control(frame, REPEAT) & frame["speedup"].between(*CREDIBLE), "speedup"]
    return 0.0 if pairs.empty else float((1 / pairs - 1).abs().quantile(0.95, interpolation="higher"))


def _control(frame: pd.DataFrame, name: str) -> pd.Series[bool]:
    return (frame["role"] == CONTROL) & (frame["provider"] == name) & (frame["status"] == Status.OK.value)
