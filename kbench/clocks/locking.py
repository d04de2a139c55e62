"""Locks the clocks of a run's devices. A process of its own, the keeper, holds the locks: see keeper.py."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from kbench.clocks.cards import same_clock
from kbench.clocks.lock_card import LockedClock
from kbench.clocks.unlocking import unlock_lost
from kbench.errors import UsageError
from kbench.protocol import DeviceInfo
from kbench.results.row import Row

OPTION = "--lock-clocks"

LOCK_LIMIT_S = 20.0
"""How long the keeper may take to start and to lock one device. Its waits for the clocks of a device take 5 s at most."""

UNLOCK_LIMIT_S = 10.0
"""How long the keeper may take to unlock all devices. NVML takes milliseconds."""

_ANSWER_BYTES = 1 << 20

KEEPER = [sys.executable, "-P", "-m", "kbench.clocks.keeper"]  # -P: not from the working folder


@contextmanager
def locked_clocks(
    asked: str | None, devices: Sequence[DeviceInfo], note: Callable[[str], None]
) -> Iterator[list[LockedClock]]:
    """Inside, the clocks of the devices are locked at `asked`: `base`, or a number of MHz. None locks nothing.

    The locks are undone at the end, and also when this process is killed. Raises UsageError if a device does not take the lock;
    nothing is locked then.
    """
    if asked is None:
        yield []
        return
    _check_possible(devices)
    uuids = [device.uuid for device in devices]
    keeper = _start([asked, *uuids])
    try:
        answer = _answer(keeper, LOCK_LIMIT_S * len(uuids))
        if answer is None:
            raise UsageError(
                f"{OPTION}: the process that locks clocks did not answer; leave out {OPTION}, or try again"
            )
        if "error" in answer:
            for failure in answer["failures"]:
                note(f"warning: {failure}")
            raise UsageError(f"{OPTION}: {answer['error']}")
        locked = [LockedClock(**clock) for clock in answer["locked"]]
        for clock in locked:
            memory = "memory not locked" if clock.memory_mhz is None else f"memory at {clock.memory_mhz} MHz"
            note(f"clocks of {clock.name} ({clock.uuid}) locked at {clock.sm_mhz} MHz, {memory}")
        yield locked
    finally:
        _end(keeper, uuids, note)


def note_moved(locked: Sequence[LockedClock], rows: Sequence[Row], note: Callable[[str], None]) -> None:
    """Say of each device which rows ran at another clock than the locked one: its power or temperature limit comes first."""
    for clock in locked:
        known = [row.sm_mhz for row in rows if row.device_uuid == clock.uuid and row.sm_mhz is not None]
        if moved := [mhz for mhz in known if not same_clock(mhz, clock.sm_mhz)]:
            low, high = f"{min(moved):.0f}", f"{max(moved):.0f}"
            ran = low if low == high else f"{low} to {high}"
            note(
                f"{len(moved)} of {len(known)} rows on {clock.name} ({clock.uuid}) ran at {ran} MHz and not at the locked "
                f"{clock.sm_mhz} MHz; their column `throttle` may say why"
            )


def _check_possible(devices: Sequence[DeviceInfo]) -> None:
    if sys.platform != "linux":
        raise UsageError(f"{OPTION} works on Linux only; leave it out")
    if not all(device.uuid for device in devices):
        raise UsageError(f"{OPTION}: there is no NVIDIA device here whose clocks could be locked; leave it out")


def _start(arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    root = str(Path(__file__).parents[2])  # where this kbench is, if it is not installed
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        [*KEEPER, *arguments],
        bufsize=0,
        stdin=subprocess.PIPE,  # no other child inherits this end, so that it closes with this process
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,  # signals from the terminal are for this process
    )


def _answer(keeper: subprocess.Popen[bytes], limit_s: float) -> dict[str, Any] | None:
    """The keeper's next line; None if none comes in time, or if the keeper has ended."""
    assert keeper.stdout
    line = _read_line(keeper.stdout, time.monotonic() + limit_s)
    return json.loads(line) if line.endswith(b"\n") else None


def _read_line(stream: IO[bytes], deadline: float) -> bytes:
    line = b""
    while not line.endswith(b"\n") and len(line) < _ANSWER_BYTES:
        ready, _, _ = select.select([stream], [], [], max(0.0, deadline - time.monotonic()))
        part = os.read(stream.fileno(), _ANSWER_BYTES) if ready else b""
        if not part:
            break
        line += part
    return line


def _end(keeper: subprocess.Popen[bytes], uuids: Sequence[str], note: Callable[[str], None]) -> None:
    """Let the keeper unlock the clocks. Unlock them here if it was lost."""
    assert keeper.stdin and keeper.stdout
    with suppress(OSError):
        keeper.stdin.close()
    answer = _answer(keeper, UNLOCK_LIMIT_S)
    try:
        keeper.wait(UNLOCK_LIMIT_S)
    except subprocess.TimeoutExpired:
        keeper.kill()
        with suppress(subprocess.TimeoutExpired):  # a call of the driver may hold even a killed process
            keeper.wait(UNLOCK_LIMIT_S)
    keeper.stdout.close()
    failures = answer["failures"] if answer else unlock_lost(uuids).failures
    for failure in failures:
        note(f"warning: {failure}")
