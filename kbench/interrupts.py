"""Handles the signals that end a run: from Ctrl-C, a closed terminal or a queueing system. All have the same effect."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDING_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name)
)  # Windows has two of them


def end_at_once() -> None:
    """Let Ctrl-C end the program without a traceback, as long as there is nothing to clean up."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_on_signals() -> None:
    """Let each signal raise KeyboardInterrupt. A signal that is ignored stays ignored, as `nohup` needs."""
    for number in ENDING_SIGNALS:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)


def ignore_signals() -> None:
    """From here on, so that none changes the exit code."""
    for number in ENDING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def once() -> Iterator[None]:
    """Inside, the first signal raises KeyboardInterrupt, and further ones do nothing: a user may hold Ctrl-C down, and a
    queueing system sends several signals. Works in the main thread only, as signals reach no other thread."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        for ending in numbers:
            signal.signal(ending, signal.SIG_IGN)
        raise KeyboardInterrupt

    numbers = []
    if threading.current_thread() is threading.main_thread():
        numbers = [number for number in ENDING_SIGNALS if signal.getsignal(number) is signal.default_int_handler]
    for number in numbers:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.default_int_handler)


@contextmanager
def noted() -> Iterator[list[int]]:
    """Inside, a signal only adds its number to the list, for a loop that looks there and ends. For the main thread only."""
    numbers: list[int] = []
    handlers = {}
    if threading.current_thread() is threading.main_thread():
        handlers = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
        handlers = {number: handler for number, handler in handlers.items() if callable(handler)}
    for number in handlers:
        signal.signal(number, lambda number, frame: numbers.append(number))
    try:
        yield numbers
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
