"""Workers that start in milliseconds: forked from one process that has imported torch and triton, two seconds of work.

They are processes of their own like those that kbench starts, in a session of their own, with the environment, the working
folder and the module path that they were asked for; what a worker imports besides is imported in it. They are children of
the test's process. Only their command line, and what /proc says of their environment, are those of the process that they
were forked from.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PR_SET_CHILD_SUBREAPER = 36

SERVE = "import sys; from warm_workers import serve; serve(int(sys.argv[1]))"


class WarmWorkers:
    """The process from which workers are forked. It starts with the first of them, and ends with this one."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()

    def spawn(self, environment: Mapping[str, str], path: list[str]) -> WarmProcess:
        """Start a worker with this environment. `path` are more folders to import from."""
        pipes = [os.pipe() for _ in range(3)]
        (child_in, stdin), (stdout, child_out), (stderr, child_err) = pipes
        request = {"cwd": str(Path.cwd()), "environment": dict(environment), "path": path, "parent": os.getpid()}
        with self._lock:
            connection = self._connection()
            data = json.dumps(request).encode()
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
                [sys.executable, "-c", SERVE, str(theirs.fileno())], pass_fds=[theirs.fileno()], env=environment
            )
            theirs.close()
        return self._socket


class WarmProcess:
    """What kbench uses of a `subprocess.Popen`."""

    def __init__(self, pid: int, stdin: int, stdout: int, stderr: int) -> None:
        self.pid, self.returncode = pid, None
        self.stdin = os.fdopen(stdin, "wb", 0)
        self.stdout, self.stderr = os.fdopen(stdout, "rb", 0), os.fdopen(stderr, "rb", 0)
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        with self._lock:
            if self.returncode is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
            return self.returncode

    def wait(self, timeout: float) -> int:
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("a warm worker", timeout)
            time.sleep(0.002)
        return code


def serve(descriptor: int) -> None:
    """Fork a worker for each request that comes over a socket, until it is closed."""
    import threading as threads

    import torch
    import triton.runtime.interpreter  # noqa: F401
    from torch import _dynamo  # noqa: F401

    import kbench.measure.__main__ as worker

    base = _without_python_path(sys.path, os.environ)
    connection = socket.socket(fileno=descriptor)
    assert threads.active_count() == 1 and not torch.accelerator.is_available()
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
            _become(request, streams, base, worker.main)
        os.waitpid(between, 0)
        connection.sendall(os.read(told, 8))
        for other in (told, tell, *streams):
            os.close(other)


def _become(request: dict[str, Any], streams: list[int], base: list[str], main: Any) -> None:
    """Be the worker that was asked for, to its end."""
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
        sys.argv[:] = ["-c", *request["path"]]
        random.seed()
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001  as Python does at the end of a program
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
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
