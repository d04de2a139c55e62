"""One worker process as its parent sees it: started, asked, given time limits, and ended.

No wait here is without a limit. The process may close its pipes and live on, be stopped, stop reading, write something
other than messages, or end while a child of its own holds the pipe.
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
from pathlib import Path

from kbench.execute.worker import launch, pipes, process_tree
from kbench.execute.worker.template import Template
from kbench.execute.worker.worker_failed import WorkerFailed
from kbench.protocol import (
    LINE_LIMIT,
    Catalog,
    CatalogRequest,
    DeviceFailed,
    Message,
    PluginCall,
    ProtocolError,
    Request,
    RequestDone,
    StepBegun,
    StepEnded,
    decode,
    encode,
)
from kbench.protocol.events import STEPS
from kbench.results.vocabulary import Status
from kbench.text.exception_text import in_library
from kbench.text.printable import printable

START_LIMIT_S = 300.0
"""How long a worker may take to import torch, and then each plug-in that the user names."""

PLUGIN_LIMIT_S = 20.0
"""How long a plug-in of an installed package may take to import: the user has not asked for it."""

SOURCE_LIMIT_S = 3600.0
"""How long a script may take to run while kbench learns what it measures. It may compile a kernel for each of its cases."""

SILENCE_LIMIT_S = 600.0
"""How long a worker may be silent between two steps, while it draws inputs and computes references."""

FIRST_WORD_S = 20.0
"""A provider that takes this long for a step gets a note, and another one each time that it has taken twice as long."""

POLL_S = 0.5
"""How often to check that a silent worker still exists."""

STOPPED_LIMIT_S = 5.0
"""How long a worker may be stopped, for example by SIGSTOP, before it counts as lost."""

DEATH_LIMIT_S = 10.0
"""How long to wait for the end of a worker that has closed its pipe. The driver may take seconds to free its memory."""

STOP_LIMIT_S = 1.5
"""How long to wait for the end of a killed worker. Ctrl-C has to end kbench within two seconds."""

KILLED_LIMIT_S = 30.0
"""How long the next worker waits for the end of a killed one, which holds memory of the device and may keep it busy."""

SUSPENDED_S = 5.0
"""When a wait takes this much longer than its timeout, kbench itself was suspended. The worker then gets more time."""

STDERR_LINES_KEPT = 200

STDERR_LINE_LIMIT = 4096
"""Bytes to keep of a line on stderr."""

NOTES_LIMIT = 10
"""How many notes of a worker kbench shows. A provider can write them too."""

NOTE_LIMIT = 300
"""Characters of a note."""

IDLE = "while no provider was running"
"""The part of a reason that names the step, for a worker that is in none."""

NONSENSE = "the worker process sent something other than kbench's messages"


class Worker:
    """One worker process, with the catalog that it reports at its start.

    request    which plug-ins it imports, and which it leaves out
    note       receives the worker's notes: lines on its stderr that begin with `kbench: `
    variables  are added to its environment before it imports torch
    template   forks the process; without one, or if it cannot, the process imports torch itself

    Raises WorkerLost when the process does not start or reports no catalog.
    """

    def __init__(
        self,
        request: CatalogRequest,
        note: Callable[[str], None] = lambda line: None,
        variables: Mapping[str, str] | None = None,
        template: Template | None = None,
    ) -> None:
        self._note = note
        self._shown: set[str] = set()
        self._hidden = 0
        self._source = request.source.path if request.source else ""
        self._named = frozenset([*request.plugins, *([request.source.path] if request.source else [])])
        self._mark = secrets.token_hex(process_tree.MARK_BYTES)
        self._secret = ""
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()  # None: there will be no more
        self._nonsense = False
        self._starting = True
        self._stderr: collections.deque[str] = collections.deque(maxlen=STDERR_LINES_KEPT)
        self._readers: list[threading.Thread] = []
        try:
            self._process = self._launch(variables or {}, template)
            self._listen()
        except (OSError, RuntimeError) as error:  # the system is out of descriptors, processes or threads
            raise WorkerFailed(Status.CRASHED, f"no worker process can be started: {printable(str(error))}") from None
        try:
            answers = list(self.ask(request, limit_s=START_LIMIT_S))
        except BaseException:
            self.stop()
            raise
        catalog = next((answer for answer in answers if isinstance(answer, Catalog)), None)
        if catalog is None:
            self.stop()
            raise WorkerFailed(Status.CRASHED, NONSENSE)
        self.catalog = catalog
        self._starting = False

    def _launch(self, variables: Mapping[str, str], template: Template | None) -> launch.Process:
        with suppress(OSError):
            if template:
                return template.fork(self._mark)
        return launch.spawn(launch.worker_environment() | {process_tree.MARK: self._mark} | dict(variables))

    def _listen(self) -> None:
        try:
            for read in (self._read_messages, self._read_stderr):
                self._readers.append(_thread(read))
        except RuntimeError:
            self.stop()
            raise

    def ask(self, request: Request, limit_s: float = SILENCE_LIMIT_S) -> Iterator[Message]:
        """Send a request and yield the answers as they come, without the final `RequestDone`. Raises WorkerLost."""
        self._secret = secrets.token_hex(8)
        self._send(encode(request, self._secret))
        at: StepBegun | PluginCall | None = None
        while True:
            line = self._next(limit_s, at)
            try:
                message = decode(line, self._secret)
            except ProtocolError:
                raise self._refuse_line(at) from None
            if isinstance(message, StepBegun):
                at, limit_s = message, message.limit_s
            elif isinstance(message, PluginCall):
                at = message if message.plugin else None
                limit_s = PLUGIN_LIMIT_S if at and at.plugin not in self._named else START_LIMIT_S
                limit_s = SOURCE_LIMIT_S if at and at.plugin == self._source else limit_s
                continue
            elif isinstance(message, StepEnded):
                at, limit_s = None, SILENCE_LIMIT_S
            elif isinstance(message, DeviceFailed):
                self.stop()
                raise WorkerFailed(message.status, message.reason, at)
            elif isinstance(message, RequestDone):
                return
            yield message

    def stop(self) -> None:
        """Kill the worker and the processes that it has started: compilers, and children of providers."""
        process_tree.end_all(self._process, self._mark)
        try:
            self._process.wait(timeout=STOP_LIMIT_S)
        except subprocess.TimeoutExpired:  # the driver waits for a kernel that still runs
            self._note(f"process {self._process.pid} was killed, but ends only when its device has finished its work")
        for reader in self._readers:
            reader.join(timeout=0.5)  # a process that was not found may still hold the pipe
        if self._hidden:
            notes = "note of this worker is" if self._hidden == 1 else "notes of this worker are"
            self._note(f"{self._hidden} more {notes} not shown")
            self._hidden = 0

    def wait_for_end(self, stopped: Callable[[], bool]) -> None:
        """Wait for the end of the process after `stop`, but not for long, and no longer when `stopped` says so."""
        deadline = time.monotonic() + KILLED_LIMIT_S
        while not stopped():
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=POLL_S)
                return
            if time.monotonic() > deadline:
                self._note(
                    f"process {self._process.pid} has not ended yet: memory may run out, and times may be too long"
                )
                return

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    # -- waiting

    def _next(self, limit_s: float, at: StepBegun | PluginCall | None) -> bytes:
        """The next line. Raises WorkerLost when none comes within the limit, or when none can come any more."""
        began = time.monotonic()
        deadline, word_s = began + limit_s, FIRST_WORD_S
        stopped_since: float | None = None
        while True:
            asked = time.monotonic()
            patience = min(POLL_S, max(0.0, deadline - asked))
            try:
                line = self._lines.get(timeout=patience)
            except queue.Empty:
                pass
            else:
                if line is None:
                    raise self._refuse_line(at) if self._nonsense else self._explain_death(at)
                return line
            now = time.monotonic()
            if now - asked - patience > SUSPENDED_S:
                deadline += now - asked
                continue
            if self._process.poll() is not None:
                self._readers[0].join(timeout=POLL_S)  # a child of the worker may still hold the pipe
                if self._lines.empty():
                    raise self._explain_death(at)
                continue
            if now >= deadline:
                self.stop()
                raise WorkerFailed(Status.TIMEOUT, f"took longer than {limit_s:g} s {self._while(at)}", at)
            if isinstance(at, StepBegun) and now - began >= word_s:
                self._note(_slow(at, word_s))
                word_s *= 2
            stopped_since = (stopped_since or now) if process_tree.is_stopped(self._process) else None
            if stopped_since and now - stopped_since >= STOPPED_LIMIT_S:
                self.stop()
                raise WorkerFailed(Status.CRASHED, f"the process was stopped (as by SIGSTOP) {self._while(at)}", at)

    # -- the end

    def _explain_death(self, at: StepBegun | PluginCall | None) -> WorkerFailed:
        """The error for a process that has ended by itself, or has closed its pipe."""
        try:
            code = self._process.wait(timeout=DEATH_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.stop()
            return WorkerFailed(
                Status.CRASHED, f"the process closed the pipe to kbench {self._while(at)}, but kept running", at
            )
        self.stop()
        if code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
            reason = f"killed by {name} {self._while(at)}"
            if name == "SIGKILL":
                reason += " (the system does this when memory runs out)"
        else:
            reason = f"the process exited with code {code} {self._while(at)}"
        if place := self._find_fault():
            reason += f", at {place}"
        elif code > 0 and at is None and self._stderr:
            reason += f": {printable(self._stderr[-1].strip(), NOTE_LIMIT)}"
        killed = code == -getattr(signal, "SIGKILL", 9)
        return WorkerFailed(Status.CRASHED, reason, at, killed=killed, exited=code >= 0)

    def _refuse_line(self, at: StepBegun | PluginCall | None) -> WorkerFailed:
        self.stop()
        return WorkerFailed(Status.CRASHED, f"{NONSENSE} {self._while(at)}", at, exited=True)

    def _while(self, at: StepBegun | PluginCall | None) -> str:
        if isinstance(at, StepBegun):
            return f"while {STEPS[at.step]}"
        if isinstance(at, PluginCall):
            return "in its availability check" if at.provider else "while the plug-in was imported"
        return "while starting" if self._starting else IDLE

    def _find_fault(self) -> str | None:
        """The innermost line of a user's own code at a fatal signal, `mine.py:12`, from faulthandler's traceback on stderr."""
        lines = list(self._stderr)
        starts = [i for i, line in enumerate(lines) if line.startswith("Current thread")]
        frames = [re.match(r'\s*File "(.+)", line (\d+) in', line) for line in lines[starts[-1] :]] if starts else []
        places = [(frame[1], frame[2]) for frame in frames if frame]
        own = [place for place in places if not in_library(place[0])] or places
        return printable(f"{Path(own[0][0]).name}:{own[0][1]}", NOTE_LIMIT) if own else None

    # -- pipes

    def _send(self, data: bytes) -> None:
        """Write to the worker in a separate thread. A worker that is stopped or does not read then cannot block the parent."""
        assert self._process.stdin
        pipe = self._process.stdin

        def write() -> None:
            left = memoryview(data)
            with suppress(OSError):  # the worker has ended; the wait for its answer reports it
                while left:
                    left = left[os.write(pipe.fileno(), left) :]

        try:
            _thread(write)
        except RuntimeError as error:
            self.stop()
            raise WorkerFailed(
                Status.CRASHED, f"cannot send a request to the worker: {printable(str(error))}"
            ) from None

    def _read_messages(self) -> None:
        """Queue the worker's lines. A line that does not begin with the secret is refused before it is read to its end.
        Until the first answer other lines are ignored: code that Python runs at its start (sitecustomize) may print."""
        assert self._process.stdout
        heard = False

        def secret() -> bytes:
            return f"{self._secret} ".encode() if heard else b""

        try:
            for line in pipes.read_lines(self._process.stdout.fileno(), LINE_LIMIT, secret):
                heard = heard or line.startswith(f"{self._secret} ".encode())
                if heard:
                    self._lines.put(line)
        except pipes.Refused:
            self._nonsense = True
        self._lines.put(None)

    def _read_stderr(self) -> None:
        assert self._process.stderr
        for data in pipes.read_line_starts(self._process.stderr.fileno(), STDERR_LINE_LIMIT):
            line = data.decode("utf-8", "replace")
            self._stderr.append(line)
            if line.startswith("kbench: "):
                self._show_note(printable(line.removeprefix("kbench: ").strip(), NOTE_LIMIT))

    def _show_note(self, note: str) -> None:
        """Show each note once, up to NOTES_LIMIT notes."""
        if note in self._shown or len(self._shown) == NOTES_LIMIT:
            self._hidden += 1
            return
        self._shown.add(note)
        self._note(note)


def _slow(at: StepBegun, seconds: float) -> str:
    """`mine: building for 20 s so far, on odd columns; kbench ends it after 600 s (build_timeout_s)`"""
    edge = f", on {at.edge}" if at.edge else ""
    setting = "build_timeout_s" if at.step == "build" else "timeout_s"
    return (
        f"{at.name}: {STEPS[at.step]} for {seconds:g} s so far{edge}; kbench ends it after {at.limit_s:g} s ({setting})"
    )


def _thread(target: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    return thread
