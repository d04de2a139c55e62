"""A template: a process that has imported torch, and from which workers are forked.

To import torch takes seconds, and to fork a process that has done so takes milliseconds. Every session of a run has a
template of its own, so the processes of two sessions have no memory layout in common. The workers of one session do.

Each request to a template gets one answer:

    fork NAME=VALUE   with the three streams of the worker; its process id, or `refused`
    status PID        `running`, or the exit code of that worker

A template that does not answer, or must not be forked, is ended with all its workers, and the next workers are started
without one.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress

from kbench.execute.worker import launch, process_tree

IMPORT_LIMIT_S = 120.0
"""How long a template may take to import torch. After that time a worker starts without it, which has its own limit."""

TEMPLATE_ANSWER_LIMIT_S = 10.0
"""How long a template may take to answer."""

ANSWER_BYTES = 64

EXIT_POLL_S = 0.005
"""How often to look whether a worker has ended."""


class Template:
    """Starts at once, and imports in the background. `variables` are added to the environment of its workers.

    Raises OSError when it cannot be started.
    """

    def __init__(self, command: list[str], variables: Mapping[str, str]) -> None:
        self._lock = threading.Lock()
        self._ready = False
        self._stopped = False
        mark = {process_tree.MARK: secrets.token_hex(process_tree.MARK_BYTES)}
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = launch.spawn_template(command, launch.worker_environment() | mark | dict(variables), theirs)

    def fork(self, mark: str) -> ForkedProcess:
        """Fork a worker, with this mark in its environment (see process_tree.py). Raises OSError."""
        pipes = [os.pipe() for _ in range(3)]
        (child_in, stdin), (stdout, child_out), (stderr, child_err) = pipes
        try:
            answer = self.ask(f"fork {process_tree.MARK}={mark}", [child_in, child_out, child_err])
            return ForkedProcess(self, int(answer), stdin, stdout, stderr)
        except (OSError, ValueError) as error:  # ValueError: refused
            self.stop()
            for end in (stdin, stdout, stderr):
                os.close(end)
            raise OSError(f"the process that forks the workers does not answer: {error}") from None
        finally:
            for end in (child_in, child_out, child_err):
                os.close(end)

    def ask(self, request: str, streams: list[int] | None = None) -> str:
        """The answer to a request. Raises OSError."""
        with self._lock:
            if self._stopped:
                raise OSError("kbench has ended it")
            try:
                if not self._ready:
                    self._socket.settimeout(IMPORT_LIMIT_S)
                    self._receive()
                    self._socket.settimeout(TEMPLATE_ANSWER_LIMIT_S)
                    self._ready = True
                socket.send_fds(self._socket, [request.encode()], streams or [])
                return self._receive()
            except BaseException:  # also on Ctrl-C: a late answer would be taken for that to another request
                self.stop()
                raise

    def _receive(self) -> str:
        answer = self._socket.recv(ANSWER_BYTES)
        if not answer:
            raise OSError("it has ended")
        return answer.decode()

    def stop(self) -> None:
        """End the template. The kernel ends its workers with it."""
        self._stopped = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # another thread that waits for an answer gets none
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1.0)


def start_template(variables: Mapping[str, str]) -> Template | None:
    """A new template; None where there can be none."""
    try:
        return Template(launch.TEMPLATE_COMMAND, variables) if launch.TEMPLATE_COMMAND else None
    except OSError:  # the system is out of descriptors or processes; the start of the worker will say so
        return None


class ForkedProcess:
    """A worker that was forked from a template, as a `launch.Process`."""

    def __init__(self, template: Template, pid: int, stdin: int, stdout: int, stderr: int) -> None:
        self._template, self.pid = template, pid
        self.returncode: int | None = None
        self.stdin = os.fdopen(stdin, "wb", 0)
        self.stdout, self.stderr = os.fdopen(stdout, "rb", 0), os.fdopen(stderr, "rb", 0)

    def poll(self) -> int | None:
        if self.returncode is None:
            try:
                answer = self._template.ask(f"status {self.pid}")
                self.returncode = None if answer == "running" else int(answer)
            except OSError:
                self.returncode = -signal.SIGKILL  # the worker has ended with its template
        return self.returncode

    def wait(self, timeout: float) -> int:
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("worker", timeout)
            time.sleep(EXIT_POLL_S)
        return code

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
