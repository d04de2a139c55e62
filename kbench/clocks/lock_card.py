"""Locks the clocks of one device, verifies the lock by reading the clocks back, and undoes it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from kbench.clocks.cards import Card, CardError, same_clock

BASE = "base"
"""What to ask for to get the base clock: the highest clock that the device keeps at its rated power (TDP)."""

READ_EVERY_S = 0.1
SETTLED_READINGS = 3
"""A clock has settled when so many readings in a row are equal."""

SETTLE_LIMIT_S = 2.0
"""How long to wait until the clock settles. A change takes milliseconds, but NVML may report the old clock a while longer."""


class LockRefused(Exception):
    """The clocks cannot be locked or unlocked. The message says why and what to do."""


@dataclass(frozen=True)
class LockedClock:
    """The clocks of a device while they are locked, as they were read back, in MHz. `memory_mhz` is None if the device cannot
    lock the clock of its memory."""

    uuid: str
    name: str
    sm_mhz: int
    memory_mhz: int | None


def set_lock(card: Card, asked: str) -> None:
    """Lock the clock of the processors at `asked`. Raises LockRefused; the clock is unchanged then."""
    mhz = None if asked == BASE else int(asked)
    _check_supported(card, mhz)
    try:
        card.lock_sm(mhz)
    except CardError as error:
        raise LockRefused(_refusal(card, asked, error)) from None


def verify_lock(card: Card, asked: str) -> LockedClock:
    """Read the locked clock back, and lock the clock of the memory at its maximum. Raises LockRefused if the device does not
    take the lock. The caller has to call `unlock_card` then, too."""
    try:
        read = _settled_mhz(card, None if asked == BASE else int(asked))
    except CardError as error:
        raise LockRefused(_refusal(card, asked, error)) from None
    return LockedClock(card.uuid, card.name, read, _lock_memory(card))


def unlock_card(card: Card) -> None:
    """Undo a lock. Does no harm where there is none. Raises LockRefused."""
    try:
        card.unlock_sm()
        card.unlock_memory()
    except CardError as error:
        right = " Only root has the right." if error.denied else ""
        raise LockRefused(
            f"the clocks of {_named(card)} cannot be unlocked (NVML: {error}).{right} Unlock them with: "
            f"{unlock_command(card.uuid)}"
        ) from None


def unlock_command(uuid: str) -> str:
    return f"sudo nvidia-smi -i {uuid} --reset-gpu-clocks && sudo nvidia-smi -i {uuid} --reset-memory-clocks"


def lock_command(uuid: str, asked: str) -> str:
    clock = "tdp" if asked == BASE else asked
    return f"sudo nvidia-smi -i {uuid} --lock-gpu-clocks={clock},{clock}"


def _check_supported(card: Card, mhz: int | None) -> None:
    supported = card.supported_sm_mhz()
    if mhz is None or not supported or mhz in supported:
        return
    below = [clock for clock in supported if clock < mhz][-1:]
    above = [clock for clock in supported if clock > mhz][:1]
    near = " and ".join(f"{clock}" for clock in below + above)
    raise LockRefused(
        f"{_named(card)} has no clock of {mhz} MHz; the nearest {'is' if ' ' not in near else 'are'} {near}"
    )


def _settled_mhz(card: Card, mhz: int | None) -> int:
    """The clock once it has settled. Raises LockRefused if it does not settle, or not at `mhz`; and CardError."""
    readings: list[int] = []
    deadline = time.monotonic() + SETTLE_LIMIT_S
    while time.monotonic() < deadline:
        readings.append(card.sm_mhz())
        last = readings[-SETTLED_READINGS:]
        if len(last) == SETTLED_READINGS and len(set(last)) == 1 and (mhz is None or same_clock(last[0], mhz)):
            return last[0]
        time.sleep(READ_EVERY_S)
    wanted = "its base clock" if mhz is None else f"{mhz} MHz"
    raise LockRefused(
        f"kbench locked {_named(card)} at {wanted}, but the clock did not settle there within {SETTLE_LIMIT_S:g} s (last "
        f"reading: {readings[-1]} MHz), so kbench has undone the lock. Look for the reason with: "
        f"nvidia-smi -i {card.uuid} -q -d PERFORMANCE,CLOCK"
    )


def _lock_memory(card: Card) -> int | None:
    """Lock the clock of the memory at its maximum. Returns the clock; None if the device does not support or take the lock."""
    highest = card.max_memory_mhz()
    if highest is None:
        return None
    try:
        card.lock_memory(highest)
        read = card.memory_mhz()
        if same_clock(read, highest):
            return read
        card.unlock_memory()
    except CardError:  # many devices lock the clock of the processors only
        return None
    return None


def _refusal(card: Card, asked: str, error: CardError) -> str:
    if error.denied:
        return (
            f"this user may not lock the clocks of {_named(card)}: only root has the right. Lock them before the run with: "
            f"{lock_command(card.uuid, asked)} ; measure without --lock-clocks; then unlock them with: "
            f"{unlock_command(card.uuid)}"
        )
    if error.unsupported:
        return f"the clocks of {_named(card)} cannot be locked (NVML: {error}); leave out --lock-clocks"
    return f"the clocks of {_named(card)} could not be locked (NVML: {error}); leave out --lock-clocks, or try again"


def _named(card: Card) -> str:
    return f"{card.name} ({card.uuid})"
