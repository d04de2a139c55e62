"""A time limit for a call that may never return."""

from __future__ import annotations

import threading

import pytest

from kbench.execute.time_limits import call_within


def test_a_call_returns_raises_or_takes_too_long() -> None:
    assert call_within(20, lambda: 7) == 7
    with pytest.raises(KeyError, match="x"):
        call_within(20, lambda: {}["x"])
    with pytest.raises(TimeoutError, match=r"no answer within 0\.05 s"):
        call_within(0.05, threading.Event().wait)
