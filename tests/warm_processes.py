"""Processes that start in milliseconds: forked from one that has imported torch and triton, which takes two seconds.

They are kbench's workers, or programs of tests. They have a session of their own and the environment, the working folder
and the module path that they were asked for; what they import besides is imported in them. They are children of the test's
process. Only their command line, and what /proc says of their environment, are those of the process that they were forked
from.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from kbench.execute import worker

PR_SET_CHILD_SUBREAPER = 36

SERVE = "import sys; from warm_processes import serve; serve(int(sys.argv[1]))"

PREPARE = "KBENCH_TEST_PREPARE"
"""The environment variable with the name of a module of tests/ that a worker imports before it begins."""

POSSIBLE = sys.platform == "linux" and not torch.accelerator.is_available()
"""A process that has used a driver cannot be forked."""


COLD_SPAWN = worker.spawn


class WarmProcesses:
    """The process from which the others are forked. It starts with the first of them, and ends with this one."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()

    @contextmanager
    def workers(self) -> Iterator[None]:
        """Have kbench start its workers like this, where that is possible. Stand-ins for them start as ever."""
        command = worker.COMMAND

        def spawn(environment: Mapping[str, str]) -> WarmProcess | subprocess.Popen[bytes]:
            if command != worker.COMMAND:
                return COLD_SPAWN(environment)
            return self._start({"source": None, "arguments": [], "path": [], "environment": dict(environment)})

        with pytest.MonkeyPatch.context() as patch:
            if POSSIBLE:
                patch.setattr(worker, "spawn", spawn)
            yield

    def run(
        self, source: str, *arguments: object, folder: Path | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """`python -c SOURCE ARGUMENTS` with these environment variables besides one's own."""
        words, environment = [*map(str, arguments)], os.environ | variables
        if not POSSIBLE:
            command = [sys.executable, "-c", source, *words]
            return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
        request = {"source": source, "arguments": words, "path": [str(folder or Path.cwd())]}
        process = self._start(request | {"environment": environment}, folder)
        process.stdin.close()
        with ThreadPoolExecutor(2) as pool:
            out, err = pool.map(lambda stream: stream.read().decode(), (process.stdout, process.stderr))
        return subprocess.CompletedProcess(words, process.wait(timeout=60), out, err)

    def _start(self, request: dict[str, Any], folder: Path | None = None) -> WarmProcess:
        pipes = [os.pipe() for _ in range(3)]
        (child_in, stdin), (stdout, child_out), (stderr, child_err) = pipes
        data = json.dumps(request | {"cwd": str(folder or Path.cwd()), "parent": os.getpid()}).encode()
        with self._lock:
            connection = self._connection()
            socket.send_fds(connection, [len(data).to_bytes(8, "big")], [child_in, child_out, child_err])
            connection.sendall(data)
            pid = int.from_bytes(_receive(connection, 8), "big")
        for descriptor in (child_in, child_out, child_err):
            os.close(descriptor)
        return WarmProcess(pid, stdin, stdout, stderr)

    def _connection(self) -> socket.socket:
        if self._socket is None:
            import ctypes

            # Children that are forked from a child of this process become children of this one.
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
            self._socket, theirs = socket.socketpair()
            folder = Path(__file__).parent
            environment = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{os.environ['PYTHONPATH']}"}
            self._process = subprocess.Popen(
                [sys.executable, "-c", SERVE, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=environment,
                cwd=folder,
            )
            theirs.close()
        return self._socket


class WarmProcess:
    """What kbench uses of a `subprocess.Popen`."""

    def __init__(self, pid: int, stdin: int, stdout: int, stderr: int) -> None:
        self.pid, self.returncode = pid, None
        self.stdin = os.fdopen(stdin, "wb", 0)
        self.stdout, self.stderr = os.fdopen(stdout, "rb"), os.fdopen(stderr, "rb")
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        with self._lock:
            if self.returncode is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
            return self.returncode

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def wait(self, timeout: float) -> int:
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("a warm worker", timeout)
            time.sleep(0.002)
        return code


def serve(descriptor: int) -> None:
    """Fork a process for each request that comes over a socket, until it is closed."""
    from quick_interpreter import quicken
    from torch import _dynamo  # noqa: F401

    import kbench.measure.__main__ as worker_program

    quicken()

    base = _without_python_path(sys.path, os.environ)
    connection = socket.socket(fileno=descriptor)
    assert threading.active_count() == 1
    while True:
        try:
            head, streams, _, _ = socket.recv_fds(connection, 8, 3)
            request = json.loads(_receive(connection, int.from_bytes(head, "big"))) if head else None
        except OSError:
            request = None
        if request is None:
            os._exit(0)
        told, tell = os.pipe()
        between = os.fork()
        if between == 0:
            pid = os.fork()
            if pid:
                os.write(tell, pid.to_bytes(8, "big"))
                os._exit(0)
            for other in (told, tell, descriptor):
                os.close(other)
            _become(request, streams, base, worker_program.main)
        os.waitpid(between, 0)
        connection.sendall(os.read(told, 8))
        for other in (told, tell, *streams):
            os.close(other)


def _become(request: dict[str, Any], streams: list[int], base: list[str], main: Any) -> None:
    """Be the process that was asked for, to its end."""
    import atexit
    import random
    import traceback

    code = 1
    try:
        while os.getppid() != request["parent"]:
            time.sleep(0.001)
        os.setsid()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["environment"])
        named = request["environment"].get("PYTHONPATH", "").split(os.pathsep)
        sys.path[:] = [folder for folder in named if folder not in ("", ".")] + base + request["path"]
        sys.argv[:] = ["-c", *request["arguments"]]
        random.seed()
        if request["source"] is None:
            if PREPARE in os.environ:
                sys.path.append(str(Path(__file__).parent))
                importlib.import_module(os.environ[PREPARE])
                sys.path.pop()
            main()
        else:
            exec(compile(request["source"], "<string>", "exec"), vars(sys.modules["__main__"]))
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:  # noqa: BLE001  as Python does at the end of a program
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _without_python_path(path: list[str], environment: Mapping[str, str]) -> list[str]:
    named = environment.get("PYTHONPATH", "").split(os.pathsep)
    return [folder for folder in path if folder and folder not in named]


def _receive(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise OSError("the connection was closed")
        data += part
    return data
