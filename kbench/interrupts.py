"""The signals that end a run: Ctrl-C, a terminal that goes away, a queueing system. All of them end it in the same way."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name)
)  # Windows has two of them

PATIENCE_S = 10.0
"""How long a run may take to wind down before another signal is obeyed."""


def install() -> None:
    """Let each of them raise KeyboardInterrupt, but for those that are ignored: `nohup` asks for that."""
    for number in ENDING:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)


def end() -> None:
    """Let the exit code stand: from here on no signal changes it. Called as the last thing before the interpreter ends."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    # Where KeyboardInterrupt left an exec() of a string, as dataclasses use, CPython notes it down for good, caught or not,
    # and kills itself with SIGINT at its end. The next exec() takes the note back.
    exec("")


@contextmanager
def once() -> Iterator[None]:
    """Inside, the first of them raises KeyboardInterrupt. Further ones do nothing while the run winds down: Ctrl-C may be
    held down, and a queueing system sends several. Only in the main thread, which is the one they reach."""
    first: float | None = None

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal first
        now = time.monotonic()
        if first is None or now - first > PATIENCE_S:
            first = now
            raise KeyboardInterrupt

    mine = []
    if threading.current_thread() is threading.main_thread():
        mine = [number for number in ENDING if signal.getsignal(number) is signal.default_int_handler]
    for number in mine:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in mine:
            signal.signal(number, signal.default_int_handler)
