"""What `kbench history check` finds where the noise is known: tools/history_simulation.py at a small size."""

from __future__ import annotations

from types import ModuleType

import pytest
from common import tool

FOLDERS = 3


@pytest.fixture(scope="module")
def simulation() -> ModuleType:
    return tool("history_simulation")


@pytest.mark.parametrize("step", [0.03, -0.03])
def test_a_step_of_3_percent_is_found_within_three_points(simulation: ModuleType, step: float) -> None:
    outcome = simulation.count(simulation.folders(FOLDERS, {"step": step}), step)
    assert outcome.series == 30
    assert outcome.found >= 28 and outcome.prompt >= 27
    assert outcome.false_changes <= 1


def test_nothing_is_found_where_nothing_changed(simulation: ModuleType) -> None:
    assert simulation.count(simulation.folders(FOLDERS, {}), 0.0).false_changes <= 1
    assert simulation.count(simulation.folders(FOLDERS, {"machine": 0.05}), 0.0).false_changes <= 1


def test_the_simulation_can_tell_a_bad_rule(simulation: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the limit of the loss, a disturbed night is a change."""
    from kbench.history import change_points

    monkeypatch.setattr(change_points, "OUTLIER", 1e6)
    assert simulation.count(simulation.folders(FOLDERS, {}), 0.0).false_changes > 5
