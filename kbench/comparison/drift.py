"""How the machine changed between two files, measured by the `copy` controls. The code under test does not affect them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from kbench.analysis.rounds import PLAUSIBLE
from kbench.comparison.join import CONDITIONS, CaseId
from kbench.results.vocabulary import Control, Role, Status

ENOUGH_CASES = 5
"""The drift is removed from the rows only if this many cases have a copy control on both sides."""

SHARE_OF_COPIES = 0.5
"""A session counts for the drift if it has at least this share of the copies of the session with the most copies."""


@dataclass(frozen=True)
class Drift:
    """How far the times of the copy controls of each session are from their mean over all sessions.

    old, new    this distance in log time for each session number, as the median over the copies
    cases       the number of copies that the median covers
    noise       the larger noise floor of the two files (`kbench.analysis`), as a share
    copies      the change of each copy between the files, in log time
    incomplete  the same as `old` and `new`, for sessions that measured few of the cases. It corrects the rows of these
                sessions, but `change` does not include it.
    devices     the drift of each device, where files have several
    """

    old: dict[int, float] = field(default_factory=dict)
    new: dict[int, float] = field(default_factory=dict)
    cases: int = 0
    noise: float = 0.0
    copies: dict[CaseId, float] = field(default_factory=dict)
    incomplete: tuple[dict[int, float], dict[int, float]] = ({}, {})
    devices: dict[str, Drift] = field(default_factory=dict)

    def of(self, case: CaseId) -> Drift:
        """The drift of the device that a case was measured on."""
        if not self.devices:
            return self
        return self.devices.get(str(dict(case[1])["device"]), Drift(noise=self.noise))

    @property
    def parts(self) -> dict[str, Drift]:
        """The drift of each device. The key is "" if the files have one device."""
        return self.devices or {"": self}

    @property
    def change(self) -> float | None:
        """How much slower the machine became, in log time; None if the files have no copy control in common."""
        if not self.cases:
            return None
        return float(np.mean(list(self.new.values())) - np.mean(list(self.old.values())))

    @property
    def known(self) -> bool:
        """Whether there are enough controls to remove the drift from the rows."""
        return self.cases >= ENOUGH_CASES

    @property
    def removable(self) -> tuple[dict[int, float], dict[int, float]]:
        """The drift to subtract from the rows of each session, for both sides; empty if there are too few controls."""
        return (self.old | self.incomplete[0], self.new | self.incomplete[1]) if self.known else ({}, {})

    def own(self, case: CaseId) -> float:
        """How much the copy of one case changed beyond the drift that is removed, in log time."""
        taken = (self.change or 0.0) if self.known else 0.0
        return abs(self.copies.get(case, taken) - taken)


def drift(old: pd.DataFrame, new: pd.DataFrame, axes: Sequence[str], noise: float) -> Drift:
    """The drift between two frames from `table.read_results`, over the cases whose copy control both have.

    `axes` identify a case. If `device` is one of them, each device has its own drift. `noise` is the larger noise floor of
    the two files, as a share.
    """
    if "device" not in axes:
        return _estimate_drift(old, new, axes, noise)
    both = sorted(set(old["device"]) & set(new["device"]))
    here = {device: (old[old["device"] == device], new[new["device"] == device]) for device in both}
    return Drift(
        noise=noise, devices={device: _estimate_drift(*frames, axes, noise) for device, frames in here.items()}
    )


def _estimate_drift(old: pd.DataFrame, new: pd.DataFrame, axes: Sequence[str], noise: float) -> Drift:
    case = ["operator", *axes, "dtype", *(name for name in CONDITIONS if name not in axes)]
    logs = pd.concat([_select_copies(frame, case).assign(side=side) for side, frame in enumerate((old, new))])
    if set(logs["side"]) != {0, 1}:
        return Drift(noise=noise)
    levels: Any = logs.pivot_table(index=case, columns=["side", "session"], values="log_ms", observed=True)
    levels = levels[levels[0].notna().any(axis=1) & levels[1].notna().any(axis=1)]
    # Only copies that every session has count. An interrupted session has few, so it must not discard those of the others.
    counts = levels.notna().sum()
    whole = counts >= SHARE_OF_COPIES * counts.groupby("side").transform("max").clip(lower=1)
    settled = levels.loc[:, whole].dropna()
    if settled.empty:
        return Drift(noise=noise)
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
    return Drift(*shifts[0], len(settled), noise, copies, shifts[1])


def _select_copies(frame: pd.DataFrame, case: list[str]) -> pd.DataFrame:
    copies = frame[_is_ok_control(frame, Control.COPY) & frame["ms"].between(*PLAUSIBLE)]
    logs: pd.DataFrame = copies[[*case, "session"]].assign(log_ms=np.log(copies["ms"]))
    return logs


def _is_ok_control(frame: pd.DataFrame, name: str) -> pd.Series[bool]:
    return (frame["role"] == Role.CONTROL) & (frame["provider"] == name) & (frame["status"] == Status.OK.value)
