"""A line of a plot: a call of the script's function, in a thread that stops wherever it calls do_bench.

The frame of the function lives while its closure is timed, so a script may keep tensors there and give the closure raw
pointers. The switches of a script are put back whenever a line stops, and written again when it goes on. Only one thread runs
at a time: the main one waits while a line runs.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from kbench.measure.scripts.closure_group import Closure
from kbench.measure.scripts.foreign_timers import BenchCall, Timing
from kbench.measure.tampering import settings
from kbench.measure.tampering.settings import EFFECTS, Effect

GRACE_S = 30.0
"""How much longer than its limit the main thread waits for a line. The parent ends the process at the limit."""

SWITCHES = {name for name, effect in EFFECTS.items() if effect in (Effect.OWN, Effect.SHARED)}
SWITCHES |= {"the current device", "the current stream"}
# every thread has its own, and torch switches it by a context only
SWITCHES -= {"torch.inference_mode"}
RANDOM = {name for name, effect in EFFECTS.items() if effect is Effect.SILENT}


class _Thread(threading.local):
    """Whose thread it is, and whether it runs a closure that kbench measures."""

    line: Line | None = None
    measures = False


this_thread = _Thread()


@contextmanager
def measuring_a_closure() -> Iterator[None]:
    """In this thread: calls of do_bench are those of a closure that tunes itself."""
    this_thread.measures = True
    try:
        yield
    finally:
        this_thread.measures = False


class Switches:
    """The switches of a script as they are now, in the main thread, before the lines of a point begin. The same for its random
    generators: every line draws the numbers that it would draw alone."""

    def __init__(self) -> None:
        self._inference = torch.is_inference_mode_enabled()
        self._values, self.random_states = _read(SWITCHES), _read(RANDOM)

    @contextmanager
    def inherited(self) -> Iterator[None]:
        """In a new thread: it has what the main one has."""
        with torch.inference_mode(self._inference):
            settings.write(self._values)
            if torch.cuda.is_initialized():
                # gives this thread the context of the device, which a launch of Triton needs
                torch.cuda.synchronize()
            yield

    def put_back(self) -> Mapping[str, Any]:
        """Put back what a line has changed when it stops. Returns its values."""
        values = _read(SWITCHES)
        settings.write(self._values)
        return values


class Line:
    """A call of `function`. The main thread says when it goes on, and what runs in its thread while it is stopped.

    index     among the lines of its plot
    name      of its provider
    closure   where it has stopped
    returned  what the function returned
    """

    def __init__(self, index: int, name: str, function: Callable[[], Any], switches: Switches) -> None:
        self.index, self.name = index, name
        self.closure: Closure | None = None
        self.returned: Any = None
        self._function, self._switches = function, switches
        self._own_switches: Mapping[str, Any] = {}
        self._work: queue.SimpleQueue[Callable[[], Any] | Timing | BaseException] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    # -- in the main thread

    def begin(self, limit_s: float) -> BenchCall | None:
        """Run it to its first call of do_bench; None if it has ended without one. Raises what it raises."""
        settings.write(self._switches.random_states)
        threading.Thread(target=self._live, name="kbench line", daemon=True).start()
        return self._wait(limit_s)  # type: ignore[no-any-return]

    def send(self, work: Callable[[], Any] | Timing | BaseException, limit_s: float) -> Any:
        """Have something done in its thread and with its switches while it is stopped, and return what it returns. Or let it
        run to its next call of do_bench, as above: its present call returns a `Timing`, and raises an exception."""
        self._work.put(work)
        return self._wait(limit_s)

    def _wait(self, limit_s: float) -> Any:
        value, error = self._done.get(timeout=limit_s + GRACE_S)
        if error is not None:
            raise error
        return value

    # -- in its own thread

    def _live(self) -> None:
        this_thread.line = self
        raised: BaseException | None = None
        try:
            with self._switches.inherited():
                self.returned = self._function()
        except BaseException as error:  # noqa: BLE001  it becomes the reason of a row
            raised = error
        finally:
            self._switches.put_back()
        self._done.put((None, raised))

    def stop(self, call: BenchCall) -> Timing:
        """What do_bench does. Returns when the main thread says so, with its answer."""
        self._own_switches = self._switches.put_back()
        self._done.put((call, None))
        while True:
            work = self._work.get()  # without a limit: the thread ends with the process
            settings.write(self._own_switches)
            if isinstance(work, Timing):
                return work
            if isinstance(work, BaseException):
                raise work
            self._done.put(self._outcome(work))

    def _outcome(self, work: Callable[[], Any]) -> tuple[Any, BaseException | None]:
        try:
            with measuring_a_closure():
                return work(), None
        except BaseException as error:  # noqa: BLE001  it is raised in the main thread
            return None, error
        finally:
            self._own_switches = self._switches.put_back()


def _read(names: set[str]) -> Mapping[str, Any]:
    return {name: value for name, value in settings.read().items() if name in names}
