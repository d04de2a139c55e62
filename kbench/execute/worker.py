"""One worker process as its parent sees it: started, asked, given time limits, and ended.

The process runs `kbench.measure`. It gets requests on its stdin, and its messages come from its stdout (see kbench.protocol).
What it and its providers print comes from its stderr. No wait here is without a limit.
"""

from __future__ import annotations

import collections
import os
import queue
import re
import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path

import psutil

from kbench.errors import WorkerLost
from kbench.execute.spawning import spawn, worker_environment
from kbench.protocol import (
    LINE_LIMIT,
    STEPS,
    Catalog,
    CatalogRequest,
    Delivered,
    DeviceFailed,
    Message,
    ProtocolError,
    Request,
    RequestDone,
    StepBegun,
    StepEnded,
    decode,
    encode,
)
from kbench.results.vocabulary import Status
from kbench.text import terminal
from kbench.text.exception_text import in_library
from kbench.text.printable import printable

SILENCE_LIMIT_S = 600.0
"""How long a worker may be silent between two steps, while it imports torch, draws inputs and computes references."""

SLOW_S = 20.0
"""A step that takes this long gets a note, and another one each time that it has taken twice as long."""

POLL_S = 0.5
"""How often to check that a silent worker still exists."""

DEATH_LIMIT_S = 10.0
"""How long to wait for the end of a worker that has closed its pipe. The driver may take seconds to free its memory."""

STOP_LIMIT_S = 1.5
"""How long to wait for the end of a killed worker. Ctrl-C has to end kbench within two seconds."""

KILLED_LIMIT_S = 30.0
"""How long the next worker waits for the end of a lost one, which holds memory of the device and may keep it busy."""

STDERR_LINES_KEPT = 200

STDERR_LINE_BYTES = 2000
"""The rest of a longer line on stderr counts as another line. A line may become a note or a part of a reason."""

NONSENSE = "the worker process sent something other than kbench's messages"


class WorkerFailed(WorkerLost):
    """The worker process died, hung or lost its device.

    status  of the row that it was measuring
    reason  of that row
    step    the step that was running; None between two steps
    """

    def __init__(self, status: Status, reason: str, step: StepBegun | None = None) -> None:
        super().__init__(reason)
        self.status, self.reason, self.step = status, reason, step


class Worker:
    """One worker process, which begins to start. When it has started, it reports a catalog.

    request    which plug-ins it imports, and what it measures
    variables  are added to its environment

    Raises WorkerFailed when the system starts no process.
    """

    def __init__(self, request: CatalogRequest, variables: Mapping[str, str] | None = None) -> None:
        self._noted: set[str] = set()
        self._secret = secrets.token_hex(8)
        self._step: StepBegun | None = None
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()  # b"": there will be no more
        self._stderr: collections.deque[str] = collections.deque(maxlen=STDERR_LINES_KEPT)
        try:
            self._process = spawn(worker_environment() | dict(variables or {}))
        except OSError as error:  # the system is out of descriptors or processes
            raise WorkerFailed(Status.CRASHED, f"no worker process can be started: {error}") from None
        self._readers = [_thread(self._read_messages), _thread(self._read_stderr)]
        self._start = self.ask(request)

    @cached_property
    def catalog(self) -> Catalog:
        """The catalog, when the process has started. Raises WorkerFailed when it does not start or reports none."""
        try:
            *_, catalog = self._start
        except WorkerFailed as lost:
            if lost.step is None:
                raise WorkerFailed(lost.status, f"the worker process did not start: {lost.reason}") from None
            remedy = "mend it" if lost.step.step == "load" else "mend or uninstall it"
            raise WorkerFailed(lost.status, f"{lost.step.name}: {lost.reason}; {remedy}") from None
        assert isinstance(catalog, Catalog)
        return catalog

    def ask(self, request: Request, limit_s: float = SILENCE_LIMIT_S) -> Iterator[Message]:
        """Send a request. The answers come one by one, without the final `RequestDone`; to wait may raise WorkerFailed."""
        self._secret, self._step = secrets.token_hex(8), None
        self._send(encode(request, self._secret))
        return self._answers(limit_s)

    def _answers(self, limit_s: float) -> Iterator[Message]:
        while True:
            try:
                message = decode(self._next_line(limit_s), self._secret)
            except ProtocolError:
                raise self._lost(Status.CRASHED, NONSENSE) from None
            if isinstance(message, StepBegun):
                self._step, limit_s = message, message.limit_s
            elif isinstance(message, StepEnded):
                self._step, limit_s = None, SILENCE_LIMIT_S
            elif isinstance(message, DeviceFailed):
                self.stop()
                raise WorkerFailed(message.status, message.reason, self._step)
            elif isinstance(message, RequestDone):
                return
            yield message

    def reply(self, delivered: Delivered) -> None:
        """Send what another worker has delivered, for which this one has asked."""
        self._send(encode(delivered, self._secret))

    def stop(self, limit_s: float = STOP_LIMIT_S) -> None:
        """Kill the worker and what it has started: compilers, and children of providers. Wait for its end, but not for long,
        and with a limit of 0 not at all."""
        kill_tree(self._process.pid)
        if not limit_s:
            return
        try:
            self._process.wait(limit_s)
        except subprocess.TimeoutExpired:  # the driver waits for a kernel that still runs
            terminal.note(
                f"process {self._process.pid} was killed and has not ended yet, because its device still works: memory may "
                "run out, and times may be too long"
            )
        for reader in self._readers:
            reader.join(POLL_S)  # a process that was not found may still hold the pipe

    def _lost(self, status: Status, event: str) -> WorkerFailed:
        """End the process. Returns the error that says what has happened, and in which step."""
        self.stop()
        reason = f"{event} while {STEPS[self._step.step]}" if self._step else event
        return WorkerFailed(status, reason, self._step)

    def _next_line(self, limit_s: float) -> bytes:
        """The next line. Raises WorkerFailed when none comes within the limit, or when none can come any more."""
        begun, note_s = time.monotonic(), SLOW_S
        while True:
            waited_s = time.monotonic() - begun
            with suppress(queue.Empty):
                if line := self._lines.get(timeout=max(0.0, min(POLL_S, limit_s - waited_s))):
                    return line
                raise self._explain_death()
            if self._process.poll() is not None:
                self._readers[0].join(POLL_S)  # a child of the worker may still hold the pipe
                if self._lines.empty():
                    raise self._explain_death()
            elif waited_s >= limit_s:
                raise self._lost(Status.TIMEOUT, f"took longer than {limit_s:g} s")
            elif self._step and waited_s >= note_s:
                terminal.note(_slow(self._step, note_s))
                note_s *= 2

    def _explain_death(self) -> WorkerFailed:
        """The error for a process that has ended by itself, or has closed its pipe."""
        try:
            code = self._process.wait(DEATH_LIMIT_S)
        except subprocess.TimeoutExpired:
            return self._lost(Status.CRASHED, "the process closed the pipe to kbench, but kept running")
        self.stop()  # which reads stderr to its end
        reason = end_of(code)
        if code == -signal.SIGKILL:
            reason += " (the system does this when memory runs out)"
        if place := self._find_fault():
            reason += f" at {place}"
        elif code > 0 and self._step is None and self._stderr:
            reason += f": {self._stderr[-1]}"
        return self._lost(Status.CRASHED, reason)

    def _find_fault(self) -> str | None:
        """The innermost line of a user's own code at a fatal signal, `mine.py:12`, from faulthandler's traceback on stderr."""
        lines = list(self._stderr)
        starts = [number for number, line in enumerate(lines) if line.startswith("Current thread")]
        frames = [re.match(r'\s*File "(.+)", line (\d+) in', line) for line in lines[starts[-1] :]] if starts else []
        places = [(frame[1], frame[2]) for frame in frames if frame]
        user_places = [place for place in places if not in_library(place[0])] or places
        return f"{Path(user_places[0][0]).name}:{user_places[0][1]}" if user_places else None

    def _send(self, data: bytes) -> None:
        """Write to the worker in a thread of its own, so that a worker that does not read does not block the parent."""
        assert self._process.stdin
        pipe = self._process.stdin

        def write() -> None:
            unsent = memoryview(data)
            with suppress(OSError):  # the worker has ended; the wait for its answer reports it
                while unsent:
                    unsent = unsent[os.write(pipe.fileno(), unsent) :]

        _thread(write)

    def _read_messages(self) -> None:
        """Queue the worker's lines. Lines before its first answer are ignored: code that Python runs at its start
        (sitecustomize) may print."""
        assert self._process.stdout
        answered = False
        for line in iter(partial(self._process.stdout.readline, LINE_LIMIT), b""):
            answered = answered or line.startswith(self._secret.encode())
            if answered:
                self._lines.put(line)
        self._lines.put(b"")

    def _read_stderr(self) -> None:
        """Keep the last lines, and show each note once: a line that begins with `kbench: `."""
        assert self._process.stderr
        for data in iter(partial(self._process.stderr.readline, STDERR_LINE_BYTES), b""):
            line = printable(data.decode("utf-8", "replace").rstrip())
            self._stderr.append(line)
            if line.startswith("kbench: ") and line not in self._noted:
                self._noted.add(line)
                terminal.note(line.removeprefix("kbench: "))


def end_of(code: int) -> str:
    """How a process has ended. `code` is its exit code, or the negative number of the signal that has ended it."""
    if code >= 0:
        return f"the process exited with code {code}"
    with suppress(ValueError):  # another system may know more signals
        return f"killed by {signal.Signals(-code).name}"
    return f"killed by signal {-code}"


def kill_tree(pid: int) -> None:
    """Kill a process, its group if it leads one, and its descendants, which may have left the group or lost their parent."""
    processes = []
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        processes = [*process.children(recursive=True), process]
    # PermissionError: on macOS, for a group of zombies
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _slow(step: StepBegun, seconds: float) -> str:
    """`mine: building for 20 s so far, on odd columns; kbench ends it after 600 s (build_timeout_s)`"""
    edge = f", on {step.edge}" if step.edge else ""
    setting = "build_timeout_s" if step.step == "build" else "timeout_s"
    limit = f"{step.limit_s:g} s" + (f" ({setting})" if step.index >= 0 or step.edge else "")
    return f"{step.name}: {STEPS[step.step]} for {seconds:g} s so far{edge}; kbench ends it after {limit}"


def _thread(target: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    return thread
