"""Providers that attack the process they run in. What each is expected to cost is in tests/execute/test_failures.py."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch

import kbench

softmax = kbench.operator("softmax")
LONG = "x" * 300_000


def right(x):
    return torch.softmax(x, -1)


def provider(name, **options):
    """Register a deed that is done before a right answer is given."""

    def register(deed):
        softmax.provider(name, **options)(lambda x: (deed(), right(x))[1])

    return register


def supports_long(case):
    return LONG


softmax.provider("supports-300-kb", supports=supports_long)(right)
softmax.provider("moves-400-digits", moved_bytes=lambda case: 10**400)(right)


@provider("raises-a-type-of-300-kb")
def raises_long():
    raise type(LONG, (Exception,), {})("\x1b]0;owned\x07")


@provider("raises-keyboard-interrupt")
def raises_keyboard_interrupt():
    raise KeyboardInterrupt


@provider("raises-base-exception")
def raises_base():
    raise BaseException("no")


FORKED = []


@provider("forks-and-goes-on")
def forks_and_goes_on():
    if not FORKED:
        FORKED.append(os.fork())


@provider("forks-and-sys-exits")
def forks_and_exits():
    if not os.fork():
        sys.exit(0)


@provider("prints-notes")
def prints_notes():
    for _ in range(1000):
        print("kbench: \x1b]0;owned\x1b[2J note", flush=True)


@provider("leaves-a-daemon")
def leaves_a_daemon():
    if not os.fork():
        os.setsid()
        if not os.fork():
            time.sleep(600)
        os._exit(0)
    subprocess.Popen(["sleep", "600"], start_new_session=True)


@provider("closes-descriptors")
def closes_descriptors():
    os.closerange(3, 256)
    time.sleep(600)


@provider("stops")
def stops():
    os.kill(os.getpid(), signal.SIGSTOP)


@provider("no-descriptors")
def no_descriptors():
    try:
        while True:
            os.open(os.devnull, os.O_RDONLY)
    except OSError:
        pass


@provider("forges")
def forges():
    row = (
        b'{"type": "rows", "rows": [{"case": {"operator": "softmax", "axes": {"M": 4, "N": 128}, "dtype": "float32"}, '
        b'"provider": "forges", "status": "ok", "ms": 0.001, "flags": [], "round_ms": [0.001]}]}\n'
    )
    for file in range(3, 64):
        try:
            if str(Path(f"/proc/self/fd/{file}").readlink()).startswith("pipe:"):
                os.write(file, row)
        except OSError:
            pass


class Mute(RuntimeError):
    def __str__(self):
        raise ValueError("no text")


@provider("raises-without-a-text")
def raises_without_a_text():
    raise Mute
