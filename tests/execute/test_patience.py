"""Time limits for calls that may never return."""

from __future__ import annotations

import subprocess
import threading

import pytest

from kbench.execute.supervision.time_limits import Pulse, call_all_within, call_within
from kbench.execute.worker import worker_process
from kbench.execute.worker.worker_process import Worker


def test_a_call_returns_raises_or_takes_too_long() -> None:
    assert call_within(20, lambda: 7) == 7
    with pytest.raises(KeyError, match="x"):
        call_within(20, lambda: {}["x"])
    with pytest.raises(TimeoutError, match=r"no answer within 0\.05 s"):
        call_within(0.05, threading.Event().wait)


def test_calls_side_by_side_share_their_limit() -> None:
    never = threading.Event()
    found = call_all_within(0.5, {"one": lambda: 1, "never": never.wait, "fails": lambda: 1 // 0})
    assert found["one"] == 1
    assert isinstance(found["never"], TimeoutError) and isinstance(found["fails"], ZeroDivisionError)


def test_who_shows_the_same_sign_for_long_is_silent() -> None:
    pulse = Pulse(30.0)
    assert pulse.find_silent({"a": 1, "b": 1}, 0.0) == set()
    assert pulse.find_silent({"a": 2, "b": 1}, 29.0) == set()
    assert pulse.find_silent({"a": 2, "b": 1, "new": 0}, 30.0) == {"b"}
    assert pulse.find_silent({"a": 3, "new": 0}, 59.0) == set()
    assert pulse.find_silent({"a": 3, "b": 1, "new": 0}, 60.0) == {
        "new"
    }  # b came back with an old sign: it has time again


class Process:
    """A killed process whose device still works."""

    pid = 7

    def __init__(self, waits: int) -> None:
        self.left = waits

    def wait(self, timeout: float) -> int:
        self.left -= 1
        if self.left >= 0:
            raise subprocess.TimeoutExpired("worker", timeout)
        return -9


@pytest.mark.parametrize(("waits", "noted"), [(0, False), (5, False), (10**6, True)])
def test_the_wait_for_the_end_of_a_killed_worker_is_limited(
    monkeypatch: pytest.MonkeyPatch, waits: int, noted: bool
) -> None:
    monkeypatch.setattr(worker_process, "KILLED_LIMIT_S", 0.2)
    notes: list[str] = []
    worker = Worker.__new__(Worker)
    worker._process, worker._note = Process(waits), notes.append  # type: ignore[assignment]
    worker.wait_for_end(lambda: True)
    assert worker._process.left == waits, "a run that is stopped waits for nobody"  # type: ignore[attr-defined]
    worker.wait_for_end(lambda: False)
    assert notes == ["process 7 has not ended yet: memory may run out, and times may be too long"] * noted
