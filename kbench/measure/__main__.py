"""Starts a worker process, in one of two ways: by itself, or forked from a template.

The parent sends requests to a worker's stdin; answers go to its stdout. Messages and their order are those of
`kbench.protocol`. Output that a provider prints goes to stderr. The process ends when its stdin closes, so that a killed
parent leaves no worker behind.

A template imports torch, which takes seconds, and then becomes a worker in milliseconds, as often as the parent asks. It
touches no device: a driver that was started before a fork does not work after it.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import queue
import signal
import socket
import sys
import threading
import warnings
from contextlib import suppress
from pathlib import Path

PR_SET_PDEATHSIG = 1

HARMLESS_DEVICES = (
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/pts/",
    "/dev/shm/",
)
"""Files in /dev that a process may have open when it is forked. Any other may be that of a driver."""

REQUEST_BYTES = 256


def main() -> None:
    """Be a worker, to the end of this process."""
    answers = _claim_stdout()
    requests = _obey_parent()
    faulthandler.enable()
    from kbench.measure.serving import serve

    serve(requests, answers)


def template() -> None:
    """Be a template, whose stdin is a socket to the parent. Returns in each worker that is forked, when that worker ends.

    Requests and answers are those of kbench/execute/worker/template.py.
    """
    connection = socket.socket(fileno=os.dup(0))
    _replace_stdin()
    _end_with_parent()
    import kbench.measure.serving  # noqa: F401  so that no worker has to

    connection.send(b"ready")
    while True:
        data, streams, _, _ = socket.recv_fds(connection, REQUEST_BYTES, 3)
        kind, _, argument = data.decode().partition(" ")
        if kind == "fork":
            pid = _fork() if _may_fork() else None
            if pid == 0:
                _become_worker(connection, streams, argument)
                return main()
            for stream in streams:
                os.close(stream)
            connection.send(b"refused" if pid is None else str(pid).encode())
        elif kind == "status":
            ended, status = os.waitpid(int(argument), os.WNOHANG)
            connection.send(str(os.waitstatus_to_exitcode(status)).encode() if ended else b"running")
        else:  # the parent has closed the socket
            return None


def _may_fork() -> bool:
    """Whether a fork of this process can work: it has no second Python thread, and nothing that it imported has opened a
    device."""
    if threading.active_count() > 1:
        return False
    for descriptor in list(Path("/proc/self/fd").iterdir()):
        with suppress(OSError):  # the descriptor of the folder itself
            target = str(descriptor.readlink())
            if target.startswith("/dev/") and not target.startswith(HARMLESS_DEVICES):
                return False
    return True


def _fork() -> int:
    with warnings.catch_warnings():  # Python warns of numpy's idle threads, which numpy's library ends before a fork
        warnings.simplefilter("ignore")
        return os.fork()


def _become_worker(connection: socket.socket, streams: list[int], variable: str) -> None:
    """Give a forked process a session, the three streams, and an environment variable `NAME=VALUE` of its own.

    /proc shows the environment that the template was started with, and the parent finds the children of a worker there
    (kbench/execute/worker/process_tree.py). The new value therefore overwrites the old one, which is as long, in place.
    """
    connection.close()
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    name, _, value = variable.partition("=")
    library = ctypes.CDLL(None)
    library.getenv.restype = ctypes.c_void_p
    place, data = library.getenv(name.encode()), value.encode()
    if place and len(data) == len(os.environ.get(name, "")):
        ctypes.memmove(place, data, len(data))
    os.environ[name] = value


def _claim_stdout() -> int:
    """Keep stdout for the parent and send everything else that is printed, by Python or by C code, to stderr. Returns the
    descriptor of the pipe to the parent."""
    pipe = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return pipe


def _obey_parent() -> queue.Queue[bytes]:
    """Read requests in a thread. It ends the process, and all that it has started, when the parent is gone."""
    _end_with_parent()
    requests: queue.Queue[bytes] = queue.Queue()
    source = os.fdopen(os.dup(0), "rb")
    _replace_stdin()

    def read() -> None:
        for line in source:
            requests.put(line)
        if hasattr(os, "killpg") and os.getpgid(0) == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    threading.Thread(target=read, daemon=True).start()
    return requests


def _end_with_parent() -> None:
    """Have the kernel end this process when the one that started it ends. The signal also reaches a worker that is stuck
    in C code, where no thread of Python runs."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _replace_stdin() -> None:
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)


if __name__ == "__main__":
    main()
