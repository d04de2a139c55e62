"""What the machine did between two files, read from the `copy` controls: code that no change under test has touched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from kbench.analysis import analyse, rows_of
from kbench.analysis.rounds import CREDIBLE
from kbench.comparison.join import CONDITIONS, CaseId
from kbench.results.row import CONTROL, Status

ENOUGH_CASES = 5
"""Fewer controls know the machine's drift no better than the rows themselves do."""

SHARE = 0.5
"""A session is one of those that tell the machine's drift if it has this share of the copies that the fullest one has."""

COPY = "copy"


@dataclass(frozen=True)
class Drift:
    """How far each session's copies were from the mean of all sessions, in log time, by session number.

    `cases` is how many copies that is the median of; `noise` is the larger noise floor of both files (`kbench.analysis`).
    `copies` has the change of each of those copies.
    `few` has the same as `old` and `new` for sessions that measured few of the cases: their rows are put right by it, and
    what is said of the machine does not rest on it. `devices` has the drift of every device of a fleet.
    """

    old: dict[int, float] = field(default_factory=dict)
    new: dict[int, float] = field(default_factory=dict)
    cases: int = 0
    noise: float = 0.0
    copies: dict[CaseId, float] = field(default_factory=dict)
    few: tuple[dict[int, float], dict[int, float]] = ({}, {})
    devices: dict[str, Drift] = field(default_factory=dict)

    def of(self, case: CaseId) -> Drift:
        """The drift of the device that a case was measured on."""
        if not self.devices:
            return self
        return self.devices.get(str(dict(case[1])["device"]), Drift(noise=self.noise))

    @property
    def parts(self) -> dict[str, Drift]:
        """The drift by device; this one under "" where the device is the same throughout."""
        return self.devices or {"": self}

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
        return (self.old | self.few[0], self.new | self.few[1]) if self.known else ({}, {})

    def own(self, case: CaseId) -> float:
        """How far the copy of one case moved beyond what was taken out, in log time."""
        taken = (self.change or 0.0) if self.known else 0.0
        return abs(self.copies.get(case, taken) - taken)


def drift(old: pd.DataFrame, new: pd.DataFrame, axes: Sequence[str]) -> Drift:
    """The drift between two frames that `table.read` returned, over the cases whose copy both have.

    `axes` are what their rows are joined on. With `device` among them, as for fleets, every device has a drift of its own.
    """
    seen = max(noise(old), noise(new))
    if "device" not in axes:
        return _drift(old, new, axes, seen)
    both = sorted(set(old["device"]) & set(new["device"]))
    here = {device: (old[old["device"] == device], new[new["device"] == device]) for device in both}
    return Drift(noise=seen, devices={device: _drift(*frames, axes, seen) for device, frames in here.items()})


def _drift(old: pd.DataFrame, new: pd.DataFrame, axes: Sequence[str], seen: float) -> Drift:
    case = ["operator", *axes, "dtype", *(name for name in CONDITIONS if name not in axes)]
    logs = pd.concat([_copies(frame, case).assign(side=side) for side, frame in enumerate((old, new))])
    if set(logs["side"]) != {0, 1}:
        return Drift(noise=seen)
    levels: Any = logs.pivot_table(index=case, columns=["side", "session"], values="log_ms", observed=True)
    levels = levels[levels[0].notna().any(axis=1) & levels[1].notna().any(axis=1)]
    # One that was interrupted early would leave the others no more copies than it has itself.
    counts = levels.notna().sum()
    whole = counts >= SHARE * counts.groupby("side").transform("max").clip(lower=1)
    settled = levels.loc[:, whole].dropna()
    if settled.empty:
        return Drift(noise=seen)
    middle = settled.mean(axis=1)
    moved = levels.loc[settled.index].sub(middle, axis=0).median().dropna()
    shifts: list[tuple[dict[int, float], dict[int, float]]] = [({}, {}), ({}, {})]
    for (side, session), level in moved.items():
        shifts[int(not whole[side, session])][side][int(session)] = float(level)
    changes = settled[1].mean(axis=1) - settled[0].mean(axis=1)
    copies = {
        (operator, tuple(zip(axes, rest[: len(axes)], strict=True)), rest[len(axes)]): float(change)
        for (operator, *rest), change in changes.items()
    }
    return Drift(*shifts[0], len(settled), seen, copies, shifts[1])


def _copies(frame: pd.DataFrame, case: list[str]) -> pd.DataFrame:
    copies = frame[_control(frame, COPY) & frame["ms"].between(*CREDIBLE)]
    logs: pd.DataFrame = copies[[*case, "session"]].assign(log_ms=np.log(copies["ms"]))
    return logs


def noise(frame: pd.DataFrame) -> float:
    """The noise floor of a file, as a share; 0 where it is not known."""
    return analyse(rows_of(frame)).noise.floor or 0.0


def _control(frame: pd.DataFrame, name: str) -> pd.Series[bool]:
    return (frame["role"] == CONTROL) & (frame["provider"] == name) & (frame["status"] == Status.OK.value)
