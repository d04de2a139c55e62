"""How slow the machine was in each session, from the copy controls. The code under test does not affect them.

The log times of the copies are a table of cases and sessions. A row effect is what the case takes, and a column effect is the
state of the machine. Tukey's median polish (Exploratory Data Analysis, 1977, chapter 11) separates the two. It needs no
complete table: a session may lack cases, and a case may be new.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

import numpy as np
import numpy.typing as npt

_Array = npt.NDArray[np.float64]
Session = TypeVar("Session", bound=Hashable)

SWEEPS = 4
"""Passes over the table. The medians hardly change after two."""


def machine_levels(copies: Mapping[Session, Mapping[Hashable, float]]) -> dict[Session, float]:
    """For each session, how much longer its copies took than usual, in log time. `copies` has the log time of each case by
    session. Sessions without copies are not in the result. The median of all levels is 0."""
    sessions = [session for session, log_by_case in copies.items() if log_by_case]
    every_case = dict.fromkeys(case for log_by_case in copies.values() for case in log_by_case)
    cases = {case: row for row, case in enumerate(every_case)}
    if not sessions:
        return {}
    logs = np.full((len(cases), len(sessions)), np.nan)
    for column, session in enumerate(sessions):
        for case, log in copies[session].items():
            logs[cases[case], column] = log
    levels: _Array = np.zeros(len(sessions))
    for _ in range(SWEEPS):
        usual = np.nanmedian(logs - levels, axis=1)
        levels = np.nanmedian(logs - usual[:, None], axis=0)
    levels -= np.median(levels)
    return dict(zip(sessions, map(float, levels), strict=True))
