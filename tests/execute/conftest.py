"""The fixture that makes every worker a stand-in."""

from __future__ import annotations

import pytest
from stand_in import StandIn, command

from kbench.execute import spawning, worker


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """Make every worker a stand-in (see stand_in.py), with short limits."""
    for name, seconds in {
        "POLL_S": 0.05,
        "DEATH_LIMIT_S": 0.3,
        "SILENCE_LIMIT_S": 20.0,
    }.items():
        monkeypatch.setattr(worker, name, seconds)

    def use(measure: str = "pass", start: str = "pass") -> None:
        monkeypatch.setattr(spawning, "COMMAND", command(measure, start))

    return use
