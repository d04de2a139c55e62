"""The statistics of a level that changes."""

from __future__ import annotations

import math

import numpy as np

from kbench.history.change_points import level_changes, own_noise, shared_noise


def test_equal_times_are_no_fault() -> None:
    """A clock with coarse steps gives the same time every night."""
    values = np.zeros(30)
    assert own_noise(values) == 0.0
    noise = shared_noise(0.0, 30, 0.0, 0.0)
    assert noise > 0 and level_changes(values, noise, 0.02) == []
    values[20:] = math.log(1.03)
    [change] = level_changes(values, noise, 0.02)
    assert (change.at, change.earliest, change.latest) == (20, 20, 20)
