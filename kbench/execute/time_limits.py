"""A time limit for a call that may never return."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

Answer = TypeVar("Answer")


def call_within(limit_s: float, call: Callable[[], Answer]) -> Answer:
    """Return or raise what a call does. Raises TimeoutError when it takes longer; the call then goes on in its thread, and its
    result is dropped."""
    answers: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def make() -> None:
        try:
            answers.put((call(), None))
        except BaseException as error:  # noqa: BLE001  it is for the caller, in the other thread
            answers.put((None, error))

    threading.Thread(target=make, daemon=True).start()
    try:
        answer, error = answers.get(timeout=limit_s)
    except queue.Empty:
        raise TimeoutError(f"no answer within {limit_s:g} s") from None
    if error is not None:
        raise error
    returned: Answer = answer
    return returned
