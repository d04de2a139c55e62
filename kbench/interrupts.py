"""Handles the signals that end a run: from Ctrl-C, a closed terminal or a queueing system. All have the same effect."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from kbench.errors import ExitStatus

ENDING_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name)
)  # Windows has two of them

PATIENCE_S = 10.0
"""Seconds in which a run may finish its work. After that, another signal interrupts again."""


def raise_on_signals() -> None:
    """Let each signal raise KeyboardInterrupt. A signal that is ignored stays ignored, as `nohup` needs."""
    for number in ENDING_SIGNALS:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)


def is_interrupt(error: BaseException) -> bool:
    """Whether a signal raised this. If KeyboardInterrupt comes in a `__set_name__`, which class statements call, Python 3.11
    raises a RuntimeError in its place. That happens while modules are imported."""
    return isinstance(error, KeyboardInterrupt) or (
        isinstance(error, RuntimeError) and isinstance(error.__cause__, KeyboardInterrupt)
    )


@contextmanager
def while_importing() -> Iterator[None]:
    """Around the imports of a program: a signal ends it with exit code 130. A traceback from an import would help nobody."""
    try:
        yield
    except (KeyboardInterrupt, RuntimeError) as error:
        if not is_interrupt(error):
            raise
        end()
        raise SystemExit(ExitStatus.INTERRUPTED) from None


def end() -> None:
    """Ignore signals from here on, so that none changes the exit code. Called last, before the interpreter ends."""
    for number in ENDING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    # If KeyboardInterrupt leaves an exec() of a string (dataclasses use one), CPython records it, even if it is caught, and
    # kills itself with SIGINT when it ends. The next exec() clears the record.
    exec("")


@contextmanager
def once() -> Iterator[None]:
    """Inside, the first signal raises KeyboardInterrupt. Further signals do nothing for PATIENCE_S: a user may hold Ctrl-C
    down, and a queueing system sends several signals. Works in the main thread only, as signals reach no other thread."""
    first: float | None = None

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal first
        now = time.monotonic()
        if first is None or now - first > PATIENCE_S:
            first = now
            raise KeyboardInterrupt

    mine = []
    if threading.current_thread() is threading.main_thread():
        mine = [number for number in ENDING_SIGNALS if signal.getsignal(number) is signal.default_int_handler]
    for number in mine:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in mine:
            signal.signal(number, signal.default_int_handler)


@contextmanager
def held_back() -> Iterator[None]:
    """Inside, signals wait, and the first of them has its effect at the end. For short work that must not be left half done.
    Works in the main thread only."""
    came: list[tuple[int, FrameType | None]] = []
    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
    held = {number: handler for number, handler in before.items() if callable(handler)}
    for number in held:
        signal.signal(number, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)
        if came:
            held[came[0][0]](*came[0])
