"""Forks the workers of tests from a process that has imported torch: this import is most of the work of a short worker.

Where kbench runs as a process of its own, and in `make promises`, workers start as they do for a user.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from kbench.execute import spawning

HARMLESS = {
    "PYTEST_CURRENT_TEST",
    "COLUMNS",
    "TMPDIR",
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "KINETO_LOG_LEVEL",
}
"""Variables that no import reads. With another value of any other variable, a worker is started, not forked."""

LIMIT_S = 120.0
"""How long the server may take to import torch, and to end."""


class ForkServer:
    """Starts workers in place of `spawning._start`, to which it leaves those with another command or environment."""

    def __init__(self) -> None:
        self._command, self._start = spawning.COMMAND, spawning._start
        self._environment = _that_matters(spawning.worker_environment())
        self._lock = threading.Lock()
        self._control, self._end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, environment: Mapping[str, str]) -> subprocess.Popen[bytes] | ForkedWorker:
        """A worker process in the working folder."""
        if spawning.COMMAND is not self._command or _that_matters(environment) != self._environment:
            return self._start(environment)
        with self._lock:
            if not self._process:
                command = [sys.executable, "-P", Path(__file__).with_name("fork_server.py"), str(self._end.fileno())]
                streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "pass_fds": [self._end.fileno()]}
                self._process = subprocess.Popen(command, env=self._environment, start_new_session=True, **streams)
                self._end.close()
        return ForkedWorker(self._control, environment)

    def close(self) -> None:
        """End the server."""
        self._control.close()
        if self._process:
            self._process.wait(LIMIT_S)


class ForkedWorker:
    """What kbench uses of a `subprocess.Popen`."""

    def __init__(self, control: socket.socket, environment: Mapping[str, str]) -> None:
        (stdin, to), (out, stdout), (err, stderr), (reports, report) = (os.pipe() for _ in range(4))
        of_worker = [stdin, stdout, stderr, report]
        socket.send_fds(control, [json.dumps([str(Path.cwd()), dict(environment)]).encode()], of_worker)
        for descriptor in of_worker:
            os.close(descriptor)
        self.stdin, self.stdout, self.stderr = os.fdopen(to, "wb"), os.fdopen(out, "rb"), os.fdopen(err, "rb")
        self._reports, self.returncode = os.fdopen(reports, "rb", 0), None
        self.pid = self._reported(LIMIT_S)

    def wait(self, timeout: float) -> int:
        """The exit code; with a minus, the signal that has ended the worker. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(self._reported(timeout))
        return self.returncode

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def _reported(self, limit_s: float) -> int:
        if not select.select([self._reports], [], [], limit_s)[0]:
            raise subprocess.TimeoutExpired("worker", limit_s)
        number = self._reports.read(4)
        assert number, "the server has been killed"
        return int.from_bytes(number, "little")


def _that_matters(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in HARMLESS}
