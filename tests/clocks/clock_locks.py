"""What the tests of locked clocks share: a device, and processes that lock its clocks, end or are lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from nvml_devices import Devices

from kbench.clocks import lock_card
from kbench.clocks.lock_files import lock_folder
from kbench.clocks.locking import locked_clocks
from kbench.protocol import DeviceInfo

TDP = 0xFFFFFF01

CARD = DeviceInfo("cuda", "NVIDIA H200", 0, "GPU-0")

LOCKS = """
import sys, time
from kbench.clocks.locking import locked_clocks
from kbench.protocol import DeviceInfo
with locked_clocks("1500", [DeviceInfo("cuda", "NVIDIA H200", 0, "GPU-0")], lambda line: None):
    print("locked", flush=True)
    {body}
"""


def soon(holds: Callable[[], bool]) -> bool:
    """Whether this holds within 20 s."""
    deadline = time.monotonic() + 20
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.02)
    return holds()


@contextmanager
def locking_process(body: str = "time.sleep(60)") -> Iterator[subprocess.Popen[str]]:
    """A process that has locked GPU-0."""
    command = [sys.executable, "-c", LOCKS.format(body=body)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout and process.stdout.readline() == "locked\n"
            yield process
        finally:
            process.kill()


def locked(asked: str, device: DeviceInfo) -> AbstractContextManager[list[lock_card.LockedClock]]:
    return locked_clocks(asked, [device], lambda line: None)


def keeper_pid() -> int:
    [file] = lock_folder().glob("*.json")
    return int(json.loads(file.read_text())["pid"])


def lose(devices: Devices) -> None:
    """Leave a lock behind, as when a container ends with all its processes."""
    with locking_process() as process:
        process.send_signal(signal.SIGSTOP)  # so that it cannot notice the loss
        os.kill(keeper_pid(), signal.SIGKILL)
        process.kill()
    assert devices.locked("GPU-0") == 1500
