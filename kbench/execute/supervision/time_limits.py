"""Time limits for calls that may never return, and for partners that may stop answering."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

Answer = TypeVar("Answer")
Name = TypeVar("Name", bound=Hashable)


def call_within(limit_s: float, call: Callable[[], Answer]) -> Answer:
    """Return or raise what a call does. Raises TimeoutError when it takes longer; the call then goes on in its thread, and its
    result is dropped."""
    found = call_all_within(limit_s, {"": call})[""]
    if isinstance(found, BaseException):
        raise found
    return found


def call_all_within(limit_s: float, calls: Mapping[Name, Callable[[], Answer]]) -> dict[Name, Answer | BaseException]:
    """Make calls at the same time. Returns by name what each returns or raises; TimeoutError for one that takes longer."""
    answers: queue.SimpleQueue[tuple[Name, Any]] = queue.SimpleQueue()

    def make(name: Name, call: Callable[[], Answer]) -> None:
        try:
            answers.put((name, call()))
        except BaseException as error:  # noqa: BLE001  it is for the caller, in the other thread
            answers.put((name, error))

    for item in calls.items():
        threading.Thread(target=make, args=item, daemon=True).start()
    found: dict[Name, Answer | BaseException] = {
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
    """Notices partners whose sign of life, a time on their own clock, no longer changes."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._last: dict[Hashable, tuple[Any, float]] = {}

    def find_silent(self, signs: Mapping[Name, Any], now: float) -> set[Name]:
        """The partners whose sign has not changed for `limit_s` seconds. Call it regularly, with the signs of all partners."""
        self._last = {
            name: last if (last := self._last.get(name)) and last[0] == sign else (sign, now)
            for name, sign in signs.items()
        }
        return {name for name in signs if now - self._last[name][1] >= self._limit_s}
