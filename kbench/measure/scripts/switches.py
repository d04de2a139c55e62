"""The switches of a script: settings of torch and of Python that each line may change for itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from kbench.measure.tampering import settings
from kbench.measure.tampering.settings import EFFECTS, Effect

INFERENCE = "torch.inference_mode"
"""Every thread has its own, and torch switches it by a context only."""

OF_THREAD = frozenset(
    {
        "torch.set_default_device",
        "torch.set_grad_enabled",
        *(f"{what} on {kind}" for kind in ("cuda", "cpu") for what in ("autocast", "the dtype of autocast")),
        "torch.set_num_threads",
        "the current device",
        "the current stream",
    }
)
"""What else every thread has of its own, so that it need not be put back. A new thread is given what the main one has."""

OF_PROCESS = frozenset(
    name
    for name, effect in EFFECTS.items()
    if effect in (Effect.OWN, Effect.SHARED) and name not in (*OF_THREAD, INFERENCE)
)
RANDOM = frozenset(name for name, effect in EFFECTS.items() if effect is Effect.SILENT)


class ScriptSwitches:
    """The switches as they are now, in the main thread, before the lines of a point begin."""

    def __init__(self) -> None:
        self._inference = torch.is_inference_mode_enabled()
        self._thread, self._process = _read(OF_THREAD), _read(OF_PROCESS)

    @contextmanager
    def inherited(self) -> Iterator[None]:
        """In a new thread: it has what the main one has."""
        with torch.inference_mode(self._inference):
            settings.write(self._thread)
            if torch.cuda.is_initialized():
                torch.cuda.synchronize()  # gives this thread the context of the device, which a launch of Triton needs
            yield

    def left(self) -> Mapping[str, Any]:
        """The values that a line leaves behind when it stops. They are put back to what they were."""
        values = _read(OF_PROCESS)
        settings.write(self._process)
        return values

    def write(self, values: Mapping[str, Any]) -> None:
        """Give a line what it has left behind."""
        settings.write(values)


def random_states() -> Callable[[], None]:
    """Remember the states of the random generators. The function that is returned brings them back: every line draws the
    numbers that it would draw alone."""
    states, numpy = _read(RANDOM), sys.modules.get("numpy")
    numpy_state = numpy.random.get_state() if numpy else None

    def restore() -> None:
        settings.write(states)
        if numpy:
            numpy.random.set_state(numpy_state)

    return restore


def _read(names: frozenset[str]) -> Mapping[str, Any]:
    return {name: value for name, value in settings.read().items() if name in names}
