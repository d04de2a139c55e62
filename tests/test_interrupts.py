"""Signals that end a run."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from kbench import interrupts


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Leave the handlers of the test's own process as they were."""
    before = {number: signal.getsignal(number) for number in interrupts.ENDING_SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", interrupts.ENDING_SIGNALS)
def test_each_of_them_interrupts(number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_DFL)
    interrupts.raise_on_signals()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)
        time.sleep(5)


def test_an_ignored_signal_stays_ignored() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as nohup does with SIGHUP
    interrupts.raise_on_signals()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


def test_the_first_signal_counts_and_the_rest_waits_until_the_run_has_ended() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    wound_down = False
    with interrupts.once():
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        except KeyboardInterrupt:
            for _ in range(3):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.01)
            wound_down = True
    assert wound_down
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
