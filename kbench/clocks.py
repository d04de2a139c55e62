"""`kbench run --lock-clocks`: locks the clocks of a run's devices, and unlocks them however the run ends."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from kbench.errors import UsageError
from kbench.nvml import Card, CardError, same_clock
from kbench.protocol import DeviceInfo
from kbench.results.row import Row
from kbench.text import terminal

OPTION = "--lock-clocks"

BASE = "base"
"""What to ask for to get the base clock: the highest clock that the device keeps at its rated power (TDP)."""

READ_EVERY_S = 0.1
SETTLED_READINGS = 3
"""A clock has settled when so many readings in a row are equal."""

SETTLE_LIMIT_S = 2.0
"""How long to wait until the clock settles. A change takes milliseconds, but NVML may report the old clock a while longer."""

UNLOCK_AT_THE_END = """
trap '' INT TERM HUP QUIT
cat >/dev/null
for uuid; do
    nvidia-smi -i "$uuid" --reset-gpu-clocks
    nvidia-smi -i "$uuid" --reset-memory-clocks
done
"""
"""For a shell that gets UUIDs as arguments, and a pipe of the run as its stdin. The system closes the pipe when the run is
killed. The shell ignores the signals that end a run."""


@dataclass(frozen=True)
class LockedClock:
    """The clocks of a device while they are locked, as they were read back, in MHz. `memory_mhz` is None if the device cannot
    lock the clock of its memory."""

    uuid: str
    name: str
    sm_mhz: int
    memory_mhz: int | None


@contextmanager
def locked_clocks(request: str | None, devices: Sequence[DeviceInfo]) -> Iterator[list[LockedClock]]:
    """Inside, the clocks of the devices are locked as the `request` says: `base`, or a number of MHz. None locks nothing.

    The locks are undone at the end, and also when this process is killed. Raises UsageError if a device does not take the lock;
    nothing is locked then.
    """
    if request is None:
        yield []
        return
    mhz = None if request == BASE else int(request)
    cards = _cards(devices)
    for card in cards:
        _check_free(card)
        _check_supported(card, mhz)
    with _unlocked_if_killed(cards), ExitStack() as undo:
        for card in cards:
            _lock(card, mhz)
            undo.callback(_unlock, card)
        locked = [_read_back(card, mhz) for card in cards]
        for clock in locked:
            memory = "memory not locked" if clock.memory_mhz is None else f"memory at {clock.memory_mhz} MHz"
            terminal.note(f"clocks of {clock.name} ({clock.uuid}) locked at {clock.sm_mhz} MHz, {memory}")
        yield locked


def note_moved(locked: Sequence[LockedClock], rows: Sequence[Row]) -> None:
    """Say of each device which rows ran at another clock than the locked one: its power or temperature limit comes first."""
    for clock in locked:
        clocks_mhz = [row.sm_mhz for row in rows if row.device_uuid == clock.uuid and row.sm_mhz is not None]
        if moved := [mhz for mhz in clocks_mhz if not same_clock(mhz, clock.sm_mhz)]:
            low, high = f"{min(moved):.0f}", f"{max(moved):.0f}"
            ran = low if low == high else f"{low} to {high}"
            terminal.note(
                f"{len(moved)} of {len(clocks_mhz)} rows on {clock.name} ({clock.uuid}) ran at {ran} MHz and not at the locked "
                f"{clock.sm_mhz} MHz; their column `throttle` may say why"
            )


def unlock_command(uuid: str) -> str:
    return f"sudo nvidia-smi -i {uuid} --reset-gpu-clocks && sudo nvidia-smi -i {uuid} --reset-memory-clocks"


def _cards(devices: Sequence[DeviceInfo]) -> list[Card]:
    if not all(device.uuid for device in devices):
        raise UsageError(f"{OPTION}: there is no NVIDIA device here whose clocks could be locked; leave it out")
    if not (shutil.which("sh") and shutil.which("nvidia-smi")):
        raise UsageError(
            f"{OPTION} needs sh and nvidia-smi, which unlock the clocks if the run is killed; put both on PATH, or leave it out"
        )
    try:
        return [Card(device.uuid) for device in devices]
    except CardError as error:
        uuids = ", ".join(device.uuid for device in devices)
        raise UsageError(f"{OPTION}: NVML cannot lock the clocks of {uuids} ({error}); leave it out") from None


def _check_free(card: Card) -> None:
    """Raises UsageError if the clocks are locked: NVML cannot say at what, to lock them again at the end."""
    if card.limited_by_a_setting():
        raise UsageError(
            f"{OPTION}: the clock of {card} is limited already, probably by a lock of another program. kbench does not "
            "replace that lock, because it cannot restore it after the run. Remove the lock with: "
            f"{unlock_command(card.uuid)} ; or leave out {OPTION}"
        )


def _check_supported(card: Card, mhz: int | None) -> None:
    supported = card.supported_sm_mhz()
    if mhz is None or not supported or mhz in supported:
        return
    below = [clock for clock in supported if clock < mhz]
    above = [clock for clock in supported if clock > mhz]
    near = [*below[-1:], *above[:1]]
    nearest = f"the nearest {'is' if len(near) == 1 else 'are'} {' and '.join(map(str, near))}"
    raise UsageError(f"{OPTION}: {card} has no clock of {mhz} MHz; {nearest}")


@contextmanager
def _unlocked_if_killed(cards: Sequence[Card]) -> Iterator[None]:
    """If this process is killed inside, a shell unlocks the clocks. It has a session of its own, so that the signals of a
    terminal do not reach it."""
    command = ["sh", "-c", UNLOCK_AT_THE_END, "sh", *(card.uuid for card in cards)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,  # no other child inherits this end
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as shell:
        try:
            yield
        finally:
            shell.kill()


def _lock(card: Card, mhz: int | None) -> None:
    try:
        card.lock_sm(mhz)
    except CardError as error:
        if not error.denied:
            raise UsageError(
                f"{OPTION}: the clocks of {card} could not be locked (NVML: {error}); leave it out"
            ) from None
        clock = "tdp" if mhz is None else mhz
        raise UsageError(
            f"{OPTION}: this user may not lock the clocks of {card}: only root has the right. Lock them before the run with: "
            f"sudo nvidia-smi -i {card.uuid} --lock-gpu-clocks={clock},{clock} ; measure without {OPTION}; then unlock them "
            f"with: {unlock_command(card.uuid)}"
        ) from None


def _unlock(card: Card) -> None:
    try:
        card.unlock()
    except CardError as error:
        problem = f"the clocks of {card} cannot be unlocked (NVML: {error})"
        terminal.note(f"warning: {problem}. Unlock them with: {unlock_command(card.uuid)}")


def _read_back(card: Card, mhz: int | None) -> LockedClock:
    """Read the locked clock back, and lock the clock of the memory at its maximum. Raises UsageError."""
    sm_mhz, highest = _settled_mhz(card, mhz), card.max_memory_mhz()
    memory_mhz = card.memory_mhz() if highest and card.lock_memory(highest) else None
    memory_locked = memory_mhz is not None and highest is not None and same_clock(memory_mhz, highest)
    return LockedClock(card.uuid, card.name, sm_mhz, memory_mhz if memory_locked else None)


def _settled_mhz(card: Card, mhz: int | None) -> int:
    """The clock once it has settled. Raises UsageError if it does not settle, or not at `mhz`."""
    readings: list[int | None] = []
    deadline = time.monotonic() + SETTLE_LIMIT_S
    while time.monotonic() < deadline:
        reading = card.sm_mhz()
        readings = [*readings, reading][-SETTLED_READINGS:]
        settled = len(readings) == SETTLED_READINGS and len(set(readings)) == 1
        if settled and reading is not None and (mhz is None or same_clock(reading, mhz)):
            return reading
        time.sleep(READ_EVERY_S)
    target = "its base clock" if mhz is None else f"{mhz} MHz"
    raise UsageError(
        f"{OPTION}: kbench locked {card} at {target}, but the clock did not settle there within {SETTLE_LIMIT_S:g} s (last "
        f"reading: {readings[-1]} MHz), so kbench has undone the lock. Look for the reason with: "
        f"nvidia-smi -i {card.uuid} -q -d PERFORMANCE,CLOCK"
    )
