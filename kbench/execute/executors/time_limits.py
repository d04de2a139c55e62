"""Waiting for what may never come: calls into a network library, and partners that have fallen silent."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

Result = TypeVar("Result")
Name = TypeVar("Name", bound=Hashable)


def within(limit_s: float, call: Callable[[], Result]) -> Result:
    """What a call returns or raises. Raises TimeoutError where it takes longer: it goes on in a thread that nobody waits
    for."""
    found = together(limit_s, {"": call})[""]
    if isinstance(found, BaseException):
        raise found
    return found


def together(limit_s: float, calls: Mapping[Name, Callable[[], Result]]) -> dict[Name, Result | BaseException]:
    """What calls return or raise that are made side by side, TimeoutError for those that take longer. By their names."""
    answers: queue.SimpleQueue[tuple[Name, Any]] = queue.SimpleQueue()

    def make(name: Name, call: Callable[[], Result]) -> None:
        try:
            answers.put((name, call()))
        except BaseException as error:  # noqa: BLE001  it is for the caller, in the other thread
            answers.put((name, error))

    for item in calls.items():
        threading.Thread(target=make, args=item, daemon=True).start()
    found: dict[Name, Result | BaseException] = {
        name: TimeoutError(f"no answer within {limit_s:g} s") for name in calls
    }
    deadline = time.monotonic() + limit_s
    for _ in calls:
        try:
            name, answer = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        found[name] = answer
    return found


class Pulse:
    """Notices partners whose sign of life, a time on a clock of their own, no longer changes."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._last: dict[Hashable, tuple[Any, float]] = {}

    def silent(self, signs: Mapping[Name, Any], now: float) -> set[Name]:
        """Those whose sign is the same as `limit_s` seconds ago. To be called now and then with all of them."""
        self._last = {
            name: last if (last := self._last.get(name)) and last[0] == sign else (sign, now)
            for name, sign in signs.items()
        }
        return {name for name in signs if now - self._last[name][1] >= self._limit_s}
