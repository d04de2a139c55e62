"""Undoes locks of clocks that no run holds any more."""

from __future__ import annotations

import shlex
from collections.abc import Container
from typing import NamedTuple

from kbench.clocks.cards import Card, CardError
from kbench.clocks.lock_card import LockRefused, unlock_card, unlock_command
from kbench.clocks.lock_files import damaged_files, held_locks, lost_locks


class Unlocked(NamedTuple):
    """What was unlocked, and for each device that could not be, a line that says why and what to do."""

    lines: list[str]
    failures: list[str]


def unlock_lost(uuids: Container[str] | None = None) -> Unlocked:
    """Undo the locks that lost processes of kbench left, on these devices or on all. A lock file that cannot be read is a
    failure."""
    outcome = Unlocked([], [])
    with lost_locks() as lost:
        for lock in lost:
            if uuids is not None and lock.uuid not in uuids:
                continue
            try:
                card = Card(lock.uuid)
                unlock_card(card)
                lock.path.unlink(missing_ok=True)
            except CardError as error:
                outcome.failures.append(
                    f"NVML cannot unlock {lock.uuid}, which process {lock.pid} has locked since {lock.since} ({error}). "
                    f"Unlock it with: {unlock_command(lock.uuid)} ; if the device is gone, delete {lock.path}"
                )
            except LockRefused as refused:
                outcome.failures.append(str(refused))
            except OSError as error:
                outcome.failures.append(f"{lock.path}: {error.strerror}; the clocks are unlocked; delete this file")
            else:
                outcome.lines.append(
                    f"unlocked the clocks of {card.name} ({lock.uuid}), which process {lock.pid} had locked since {lock.since}"
                )
    for path in damaged_files():
        if uuids is None or path.stem in uuids:
            outcome.failures.append(
                f"{path} is damaged, or is no lock file of kbench. If the clocks of {path.stem} are locked, unlock them with: "
                f"{unlock_command(shlex.quote(path.stem))} ; then delete {path}"
            )
    return outcome


def unlock_foreign(uuid: str) -> Unlocked:
    """Undo a lock of a device that another program has set, if there is one. Leaves a lock alone that a run of kbench holds."""
    for lock in held_locks():
        if lock.uuid == uuid:
            line = (
                f"process {lock.pid} has locked the clocks of {uuid} for a run of kbench, and unlocks them at its end"
            )
            return Unlocked([line], [])
    try:
        card = Card(uuid)
        if not card.limited_by_a_setting():
            return Unlocked([], [])
        unlock_card(card)
    except CardError:  # NVML does not know the device: nothing is locked through it
        return Unlocked([], [])
    except LockRefused as refused:
        return Unlocked([], [str(refused)])
    return Unlocked([f"unlocked the clocks of {card.name} ({uuid}), which another program had locked"], [])
