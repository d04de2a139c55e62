"""A line of a plot: a call of the script's function, in a thread that stops wherever it calls do_bench.

The frame of the function lives while its closure is timed, so a script may keep tensors there and give the closure raw
pointers. What torch keeps for each thread (the current stream, grad mode, inference mode, autocast) stays the line's own, as
long as the closure runs in the line's thread. Only one thread runs at a time: the main one waits while a line runs.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from kbench.measure.scripts.bench_call import BenchCall, Timing

if TYPE_CHECKING:
    from kbench.measure.scripts.switches import ScriptSwitches

GRACE_S = 30.0
"""How much longer than its limit the main thread waits for a line. The parent ends the process at the limit."""

T = TypeVar("T")

_thread_data = threading.local()


def current_line() -> Line | None:
    """The line whose thread this is."""
    return getattr(_thread_data, "line", None)


class LineAbandoned(BaseException):
    """Ends a line that nobody waits for any more. Not an Exception: the script must not catch it."""


class LineStuck(RuntimeError):
    """A line has not come back within its limit, and nobody has ended the process."""


class Line:
    """A call of `function`. The main thread says when it goes on, and what runs in its thread while it is stopped.

    returned  what the function returned
    ended     whether it has returned or raised
    busy      whether the main thread has work done in its thread
    """

    def __init__(self, function: Callable[[], Any], switches: ScriptSwitches) -> None:
        self.returned: Any = None
        self.ended = self.busy = False
        self._function, self._switches = function, switches
        self._own_switches: Mapping[str, Any] = {}
        self._work: queue.SimpleQueue[Callable[[], Any] | Timing | BaseException] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._live, name="kbench line", daemon=True)

    def begin(self, limit_s: float) -> BenchCall | None:
        """Run it to its first call of do_bench, which is returned; None if it has ended without one. Raises what it raises."""
        self._thread.start()
        return self._wait(limit_s)  # type: ignore[no-any-return]

    def go_on(self, answer: Timing | BaseException, limit_s: float) -> BenchCall | None:
        """The same for its next call. Its present call returns, or raises, the answer."""
        self._work.put(answer)
        return self._wait(limit_s)  # type: ignore[no-any-return]

    def run(self, work: Callable[[], T], limit_s: float) -> T:
        """Have something done in its thread and with its switches, while it is stopped. Raises what the work raises."""
        self._work.put(work)
        return self._wait(limit_s)  # type: ignore[no-any-return]

    def abandon(self) -> None:
        """End it if it is stopped."""
        self._work.put(LineAbandoned())

    def stop(self, call: BenchCall) -> Timing:
        """In its thread: what do_bench does. Returns when the main thread says so, with its answer."""
        self._own_switches = self._switches.left()
        self._done.put((call, None))
        while True:
            work = self._work.get()  # without a limit: `abandon` ends it
            if isinstance(work, Timing):
                self._switches.write(self._own_switches)
                return work
            if isinstance(work, BaseException):
                self._switches.write(self._own_switches)
                raise work
            self._done.put(self._outcome(work))

    def _outcome(self, work: Callable[[], Any]) -> tuple[Any, BaseException | None]:
        self._switches.write(self._own_switches)
        self.busy = True
        try:
            return work(), None
        except BaseException as error:  # noqa: BLE001  it is raised in the main thread
            return None, error
        finally:
            self.busy = False
            self._own_switches = self._switches.left()

    def _live(self) -> None:
        _thread_data.line = self
        raised: BaseException | None = None
        try:
            with self._switches.inherited():
                self.returned = self._function()
        except LineAbandoned:
            return
        except BaseException as error:  # noqa: BLE001  it becomes the reason of a row
            raised = error
        finally:
            self._switches.left()
        self.ended = True
        self._done.put((None, raised))

    def _wait(self, limit_s: float) -> Any:
        try:
            value, error = self._done.get(timeout=limit_s + GRACE_S)
        except queue.Empty:
            raise LineStuck(f"took longer than {limit_s:g} s") from None
        if error is not None:
            raise error
        return value
