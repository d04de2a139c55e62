"""The worker process as its parent sees it: started, asked, timed and, when it hangs or dies, replaced."""

from __future__ import annotations

import collections
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from kbench.faults import in_library
from kbench.results import STEPS, Status

START_LIMIT_S = 300.0
"""The longest a worker may take to import torch and the plug-ins."""

IDLE_LIMIT_S = 600.0
"""The longest silence between two steps: drawing inputs, computing references."""

STOP_LIMIT_S = 1.5
"""How long to wait for a killed worker: Ctrl-C has to end within two seconds."""

STDERR_LINES_KEPT = 200


class WorkerLost(Exception):
    """The worker died, hung or lost its device. `index` and `step` tell what it was doing, None between steps; `killed`
    that it was ended from outside, by a person or a system short of memory."""

    def __init__(
        self, status: Status, reason: str, index: int | None, step: str | None, *, killed: bool = False
    ) -> None:
        super().__init__(reason)
        self.status, self.reason, self.index, self.step, self.killed = status, reason, index, step, killed


class Worker:
    """One worker process. `note` receives what it says on stderr about its own work (lines starting with `kbench: `);
    `variables` are added to its environment, before it imports torch."""

    def __init__(
        self,
        plugins: Sequence[str],
        note: Callable[[str], None] = lambda line: None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._note = note
        self._messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._stderr: collections.deque[str] = collections.deque(maxlen=STDERR_LINES_KEPT)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kbench.measure"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            env=_environment() | dict(variables or {}),
            start_new_session=True,  # Ctrl-C is for the parent, which then ends the whole group
        )
        assert self._process.stdout and self._process.stderr
        self._readers = [
            threading.Thread(target=self._read_messages, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._read_stderr, args=(self._process.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        try:
            answer = list(self.ask({"request": "catalog", "plugins": list(plugins)}, limit_s=START_LIMIT_S))
        except BaseException:
            self.stop()
            raise
        self.catalog: dict[str, Any] = answer[0]["catalog"]

    def ask(self, request: Mapping[str, Any], limit_s: float = IDLE_LIMIT_S) -> Iterator[dict[str, Any]]:
        """Send a request and yield the answers as they come. Raises WorkerLost."""
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except (BrokenPipeError, OSError):
            raise self._death(None, None) from None
        index: int | None = None
        step: str | None = None
        deadline = time.monotonic() + limit_s
        while True:
            try:
                message = self._messages.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                self.stop()
                raise WorkerLost(Status.TIMEOUT, f"no end within {limit_s:g} s {_while(step)}", index, step) from None
            if message is None:
                raise self._death(index, step)
            kind = message["type"]
            if kind == "begin":
                index, step, limit_s = message["index"], message["step"], message["limit_s"]
            elif kind == "end":
                index, step, limit_s = None, None, IDLE_LIMIT_S
            elif kind == "lost":
                self.stop()
                raise WorkerLost(Status(message["status"]), message["reason"], index, step)
            elif kind == "done":
                return
            deadline = time.monotonic() + limit_s
            yield message

    def stop(self) -> None:
        """Kill the worker and whatever it has started (compilers, a provider's own children)."""
        try:
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
        except (ProcessLookupError, PermissionError):
            pass  # it is gone already
        try:
            self._process.wait(timeout=STOP_LIMIT_S)
        except subprocess.TimeoutExpired:  # killed, but the driver has yet to let go of a kernel that still runs
            self._note(f"process {self._process.pid} is killed and ends when its device lets go of it")
        for reader in self._readers:
            reader.join(timeout=0.5)  # longer only when a process that left the group still holds the pipe

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def _death(self, index: int | None, step: str | None) -> WorkerLost:
        """What to say about a process that ended by itself."""
        code = self._process.wait()
        self.stop()
        if code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
            reason = f"killed by {name} {_while(step)}"
            if name == "SIGKILL":
                reason += ", as the system does when memory runs out"
        else:
            reason = f"the process exited with code {code} {_while(step)}"
        if place := self._fault_place():
            reason += f", at {place}"
        elif code > 0 and step is None and self._stderr:
            reason += f": {self._stderr[-1].strip()}"
        return WorkerLost(Status.CRASHED, reason, index, step, killed=code == -getattr(signal, "SIGKILL", 9))

    def _fault_place(self) -> str | None:
        """The innermost line of people's own code at a fatal signal, from what faulthandler has left on stderr."""
        lines = list(self._stderr)
        starts = [i for i, line in enumerate(lines) if line.startswith("Current thread")]
        frames = [re.match(r'\s*File "(.+)", line (\d+) in', line) for line in lines[starts[-1] :]] if starts else []
        places = [(frame[1], frame[2]) for frame in frames if frame]
        own = [place for place in places if not in_library(place[0])] or places
        return f"{Path(own[0][0]).name}:{own[0][1]}" if own else None

    def _read_messages(self, stream: IO[str]) -> None:
        for line in stream:
            try:
                self._messages.put(json.loads(line))
            except json.JSONDecodeError:
                self._stderr.append(line)  # a line torn by the worker's death
        self._messages.put(None)

    def _read_stderr(self, stream: IO[str]) -> None:
        for line in stream:
            self._stderr.append(line)
            if line.startswith("kbench: "):
                self._note(line.removeprefix("kbench: ").rstrip())


def _while(step: str | None) -> str:
    return f"while {STEPS[step]}" if step else "between steps"


def _environment() -> dict[str, str]:
    """The parent's environment, with kbench importable even when it runs uninstalled."""
    root = Path(__file__).resolve().parents[2]
    environment = dict(os.environ)
    if root.name != "site-packages":
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    return environment
