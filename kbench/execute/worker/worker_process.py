"""The worker process as its parent sees it: started, asked, timed and, when it hangs or dies, replaced.

Whatever the process does, nothing here waits without a limit: it may close its pipes and live on, stop, not read, write
something else than messages, or end while a child of its own holds the pipe.
"""

from __future__ import annotations

import collections
import json
import os
import queue
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kbench.errors import WorkerLost
from kbench.execute.worker import pipes, process_tree
from kbench.protocol import LINE_LIMIT, Begin, Catalog, Done, End, Loading, Lost, Message, ProtocolError, decode
from kbench.results.row import STEPS, Status
from kbench.text.exception_text import in_library
from kbench.text.printable import printable

START_LIMIT_S = 300.0
"""The longest a worker may take to import torch, and each plug-in that the user names."""

PLUGIN_LIMIT_S = 20.0
"""The longest that a plug-in of an installed package may take, which nobody has asked for."""

IDLE_LIMIT_S = 600.0
"""The longest silence between two steps: drawing inputs, computing references."""

POLL_S = 0.5
"""How often to look whether a silent worker is still there."""

STOPPED_LIMIT_S = 5.0
"""How long a worker may be stopped, as SIGSTOP does, before it counts as lost."""

DEATH_LIMIT_S = 10.0
"""How long to wait for the end of a worker that has closed its pipe: the driver may take a while to let go of its memory."""

STOP_LIMIT_S = 1.5
"""How long to wait for a killed worker: Ctrl-C has to end within two seconds."""

SUSPENDED_S = 5.0
"""A wait that takes so much longer than it should tells that kbench itself was suspended. Nobody else is to pay for it."""

STDERR_LINES_KEPT = 200

STDERR_LINE_LIMIT = 4096
"""Bytes of a line on stderr that are kept."""

NOTES_LIMIT = 10
"""Lines about its own work that a worker may show. A provider can write them too."""

NOTE_LIMIT = 300
"""Characters of such a line."""

NONSENSE = "wrote something else than kbench's messages to the worker's pipe"

# Python would look for modules in the folder that kbench is started in, where a torch.py or a queue.py may lie.
BOOT = (
    "import sys; sys.path[:] = [p for p in sys.path if p not in ('', '.')] + sys.argv[1:]; "
    "from kbench.measure.__main__ import main; main()"
)
COMMAND = [sys.executable, "-c", BOOT]


def spawn(environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a worker process, with pipes to its three streams, in the working folder. Raises OSError."""
    return subprocess.Popen(
        [*COMMAND, *_own_folder()],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,  # Ctrl-C is for the parent, which then ends the whole group
    )


class Worker:
    """One worker process. `note` receives what it says on stderr about its own work (lines starting with `kbench: `);
    `variables` are added to its environment, before it imports torch; `without` are the plug-ins that it leaves out and
    the providers that it does not ask anything, see starting.py.

    Raises WorkerLost when it does not start.
    """

    def __init__(
        self,
        plugins: Sequence[str],
        note: Callable[[str], None] = lambda line: None,
        variables: Mapping[str, str] | None = None,
        without: Sequence[Mapping[str, str]] = (),
    ) -> None:
        self._note = note
        self._shown: set[str] = set()
        self._hidden = 0
        self._named = frozenset(plugins)
        self._mark = secrets.token_hex(8)
        self._secret = ""
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()  # None: there will be no more
        self._nonsense = False
        self._stderr: collections.deque[str] = collections.deque(maxlen=STDERR_LINES_KEPT)
        self._readers: list[threading.Thread] = []
        try:
            self._start(_environment() | {process_tree.MARK: self._mark} | dict(variables or {}))
        except (OSError, RuntimeError) as error:  # no descriptors, processes or threads are left
            raise WorkerLost(Status.CRASHED, f"no worker process can be started: {printable(str(error))}") from None
        request = {"request": "catalog", "plugins": list(plugins), "without": [dict(one) for one in without]}
        try:
            answers = list(self.ask(request, limit_s=START_LIMIT_S))
        except BaseException:
            self.stop()
            raise
        self.catalog: Mapping[str, Any] = next(
            (answer.catalog for answer in answers if isinstance(answer, Catalog)), {}
        )
        if not self.catalog:
            self.stop()
            raise WorkerLost(Status.CRASHED, f"the worker {NONSENSE}")

    def _start(self, environment: Mapping[str, str]) -> None:
        self._process = spawn(environment)
        try:
            for read in (self._read_messages, self._read_stderr):
                self._readers.append(_thread(read))
        except RuntimeError:
            self.stop()
            raise

    def ask(self, request: Mapping[str, Any], limit_s: float = IDLE_LIMIT_S) -> Iterator[Message]:
        """Send a request and yield the answers as they come, without the `Done` that ends them. Raises WorkerLost."""
        self._secret = secrets.token_hex(8)
        self._send(json.dumps({**request, "secret": self._secret}).encode() + b"\n")
        at: Begin | Loading | None = None
        while True:
            line = self._next(limit_s, at)
            try:
                message = decode(line, self._secret)
            except ProtocolError:
                raise self._talks_nonsense(at) from None
            if isinstance(message, Begin):
                at, limit_s = message, message.limit_s
            elif isinstance(message, Loading):
                at = message if message.plugin else None
                limit_s = PLUGIN_LIMIT_S if at and at.plugin not in self._named else START_LIMIT_S
                continue
            elif isinstance(message, End):
                at, limit_s = None, IDLE_LIMIT_S
            elif isinstance(message, Lost):
                self.stop()
                raise _lost(message.status, message.reason, at)
            elif isinstance(message, Done):
                return
            yield message

    def stop(self) -> None:
        """Kill the worker and whatever it has started (compilers, a provider's own children)."""
        process_tree.end(self._process, self._mark)
        try:
            self._process.wait(timeout=STOP_LIMIT_S)
        except subprocess.TimeoutExpired:  # killed, but the driver has yet to let go of a kernel that still runs
            self._note(f"process {self._process.pid} is killed and ends when its device lets go of it")
        for reader in self._readers:
            reader.join(timeout=0.5)  # longer only when a process that was not found still holds the pipe
        if self._hidden:
            self._note(f"{self._hidden} more notes of this worker are not shown")
            self._hidden = 0

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    # -- waiting

    def _next(self, limit_s: float, at: Begin | Loading | None) -> bytes:
        """The next line. Raises WorkerLost where none comes within the limit, or none can come any more."""
        deadline = time.monotonic() + limit_s
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
                    raise self._talks_nonsense(at) if self._nonsense else self._death(at)
                return line
            now = time.monotonic()
            if now - asked - patience > SUSPENDED_S:
                deadline += now - asked
                continue
            if self._process.poll() is not None:
                self._readers[0].join(timeout=POLL_S)  # longer only when a child of the worker holds the pipe
                if self._lines.empty():
                    raise self._death(at)
                continue
            if now >= deadline:
                self.stop()
                raise _lost(Status.TIMEOUT, f"no end within {limit_s:g} s {_while(at)}", at)
            stopped_since = (stopped_since or now) if process_tree.stopped(self._process) else None
            if stopped_since and now - stopped_since >= STOPPED_LIMIT_S:
                self.stop()
                raise _lost(Status.CRASHED, f"the process was stopped, as SIGSTOP does, {_while(at)}", at)

    # -- the end

    def _death(self, at: Begin | Loading | None) -> WorkerLost:
        """What to say about a process that ended by itself, or has closed its pipe."""
        try:
            code = self._process.wait(timeout=DEATH_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.stop()
            return _lost(Status.CRASHED, f"the process closed the pipe to kbench {_while(at)}, and went on", at)
        self.stop()
        if code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
            reason = f"killed by {name} {_while(at)}"
            if name == "SIGKILL":
                reason += ", as the system does when memory runs out"
        else:
            reason = f"the process exited with code {code} {_while(at)}"
        if place := self._fault_place():
            reason += f", at {place}"
        elif code > 0 and at is None and self._stderr:
            reason += f": {printable(self._stderr[-1].strip(), NOTE_LIMIT)}"
        killed = code == -getattr(signal, "SIGKILL", 9)
        return _lost(Status.CRASHED, reason, at, killed=killed, exited=code >= 0)

    def _talks_nonsense(self, at: Begin | Loading | None) -> WorkerLost:
        self.stop()
        return _lost(Status.CRASHED, f"{NONSENSE} {_while(at)}", at, exited=True)

    def _fault_place(self) -> str | None:
        """The innermost line of people's own code at a fatal signal, from what faulthandler has left on stderr."""
        lines = list(self._stderr)
        starts = [i for i, line in enumerate(lines) if line.startswith("Current thread")]
        frames = [re.match(r'\s*File "(.+)", line (\d+) in', line) for line in lines[starts[-1] :]] if starts else []
        places = [(frame[1], frame[2]) for frame in frames if frame]
        own = [place for place in places if not in_library(place[0])] or places
        return printable(f"{Path(own[0][0]).name}:{own[0][1]}", NOTE_LIMIT) if own else None

    # -- pipes

    def _send(self, data: bytes) -> None:
        """Write to the worker in a thread of its own: one that is stopped, or does not read, must not hold up whoever
        waits for its answer."""
        assert self._process.stdin
        pipe = self._process.stdin

        def write() -> None:
            left = memoryview(data)
            with suppress(OSError):  # the worker has gone, which shows where its answer is waited for
                while left:
                    left = left[os.write(pipe.fileno(), left) :]

        try:
            _thread(write)
        except RuntimeError as error:
            self.stop()
            raise WorkerLost(Status.CRASHED, f"the worker cannot be asked: {printable(str(error))}") from None

    def _read_messages(self) -> None:
        """A line that does not begin with the secret is refused before there is more of it. Only until the first answer,
        Python itself may print, as what runs at its start (sitecustomize) does."""
        assert self._process.stdout
        heard = False

        def secret() -> bytes:
            return f"{self._secret} ".encode() if heard else b""

        try:
            for line in pipes.lines(self._process.stdout.fileno(), LINE_LIMIT, secret):
                heard = heard or line.startswith(f"{self._secret} ".encode())
                if heard:
                    self._lines.put(line)
        except pipes.Refused:
            self._nonsense = True
        self._lines.put(None)

    def _read_stderr(self) -> None:
        assert self._process.stderr
        for data in pipes.beginnings(self._process.stderr.fileno(), STDERR_LINE_LIMIT):
            line = data.decode("utf-8", "replace")
            self._stderr.append(line)
            if line.startswith("kbench: "):
                self._pass_on(printable(line.removeprefix("kbench: ").strip(), NOTE_LIMIT))

    def _pass_on(self, note: str) -> None:
        """Show a note, once, while there are few."""
        if note in self._shown or len(self._shown) == NOTES_LIMIT:
            self._hidden += 1
            return
        self._shown.add(note)
        self._note(note)


def _lost(
    status: Status,
    reason: str,
    at: Begin | Loading | None,
    *,
    killed: bool = False,
    exited: bool = False,
) -> WorkerLost:
    index, step = (at.index, at.step) if isinstance(at, Begin) else (None, None)
    loading = at if isinstance(at, Loading) else None
    return WorkerLost(status, reason, index, step, killed=killed, exited=exited, loading=loading)


def _while(at: Begin | Loading | None) -> str:
    if isinstance(at, Begin):
        return f"while {STEPS[at.step]}"
    if isinstance(at, Loading):
        return "while asked whether it is available" if at.provider else "while it was imported"
    return "between steps"


def _thread(target: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    return thread


def _environment() -> dict[str, str]:
    """The parent's environment, with kbench importable even when it runs uninstalled. An empty part of PYTHONPATH, or `.`,
    stands for the working folder: see _own_folder."""
    root = Path(__file__).resolve().parents[3]
    environment = dict(os.environ)
    parts = [part for part in _python_path() if part not in ("", ".")]
    if root.name != "site-packages":
        parts.insert(0, str(root))
    environment["PYTHONPATH"] = os.pathsep.join(parts)
    return environment


def _own_folder() -> list[str]:
    """The working folder where PYTHONPATH names it as `.`: modules are found in it, but shadow no others."""
    return [str(Path.cwd())] if "." in _python_path() else []


def _python_path() -> list[str]:
    return os.environ.get("PYTHONPATH", "").split(os.pathsep)
