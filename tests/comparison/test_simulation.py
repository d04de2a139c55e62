"""The verdicts on machines whose noise is known, because it is simulated: tools/comparing_simulation.py at a small size."""

from __future__ import annotations

from types import ModuleType

import pytest
from common import tool

RUNS = 20


@pytest.fixture(scope="module")
def simulation() -> ModuleType:
    return tool("comparing_simulation")


@pytest.mark.slow
def test_three_sessions(simulation: ModuleType) -> None:
    outcome = simulation.simulate("kbench, 3 sessions", RUNS)
    assert outcome.any_false <= 0.01
    assert outcome.found[0.02] >= 0.80 and outcome.found[0.05] >= 0.99
    assert outcome.uniform >= 0.9 * simulation.ROWS  # 3 % slower throughout is not normalised away


@pytest.mark.slow
def test_a_machine_that_drifted(simulation: ModuleType) -> None:
    for name, shares in simulation.SHARES.items():
        false, shown = simulation.after_drift(shares, 0.12, cases=5, sessions=3, runs=20)
        assert false == 0 and shown >= 0.8, name


@pytest.mark.slow
def test_the_simulation_can_tell_a_bad_rule(simulation: ModuleType) -> None:
    """Samples of one process taken for trials: nearly every row is called changed, corrected or not."""
    outcome = simulation.simulate("the same, Benjamini-Hochberg", 5)
    assert outcome.any_false == 1 and outcome.false_rows > 0.5 * simulation.ROWS
