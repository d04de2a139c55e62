"""The process that locks clocks for a run, and undoes the locks when the run ends in whatever way.

The run starts it as a child with a pipe as its stdin, which it closes at its end. The system closes the pipe when the run is
killed. The keeper has a session of its own and ignores signals, so that it outlives the run. It answers in lines of JSON: the
locked clocks or an error, and at the end what could not be undone.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from kbench.clocks.cards import Card, CardError
from kbench.clocks.lock_card import LockedClock, LockRefused, set_lock, unlock_card, unlock_command, verify_lock
from kbench.clocks.lock_files import Held, lock_file, lock_folder, lost_locks


def main() -> None:
    """Lock the devices of the command line until stdin ends: `keeper CLOCK UUID...`."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    asked, *uuids = sys.argv[1:]
    failures: list[str] = []
    with ExitStack() as undo:
        try:
            locked = [_lock(uuid, asked, undo, failures) for uuid in uuids]
        except LockRefused as refused:
            undo.close()
            _answer(error=str(refused), failures=failures)
            return
        _answer(locked=[dataclasses.asdict(clock) for clock in locked])
        sys.stdin.buffer.read()  # ends when the run closes the pipe, or is killed
    _answer(failures=failures)


def _lock(uuid: str, asked: str, undo: ExitStack, failures: list[str]) -> LockedClock:
    """Lock a device, and let `undo` unlock it. Raises LockRefused."""
    try:
        card = Card(uuid)
    except CardError as error:
        raise LockRefused(f"NVML cannot lock the clocks of {uuid} ({error}); leave out --lock-clocks") from None
    try:
        undo.enter_context(_kept(card, asked, failures))
    except Held as held:
        raise LockRefused(
            f"the clocks of {card.name} ({uuid}) are locked by {held}; try again when it has ended"
        ) from None
    except OSError as error:
        raise LockRefused(
            f"{error.filename or lock_folder()}: {error.strerror}; kbench uses this folder to record the clocks "
            "that it has locked. Choose another folder with XDG_STATE_HOME"
        ) from None
    return verify_lock(card, asked)


@contextmanager
def _kept(card: Card, asked: str, failures: list[str]) -> Iterator[None]:
    """Inside, the clocks are locked. If they cannot be unlocked at the end, the reason is added to `failures` and the lock file
    stays. Raises LockRefused, and what `lock_file` raises."""
    with lost_locks() as lost:
        ours = any(lock.uuid == card.uuid for lock in lost)
    with lock_file(card.uuid, asked) as remove_file:  # before the lock: a process may be killed between the two
        try:
            if not ours:
                _check_free(card)
            set_lock(card, asked)
        except LockRefused:
            remove_file()
            raise
        try:
            yield
        finally:
            try:
                unlock_card(card)
                remove_file()
            except LockRefused as refused:
                failures.append(str(refused))


def _check_free(card: Card) -> None:
    """Raises LockRefused if another program has locked the clocks: NVML cannot say at what, to lock them again at the end."""
    if card.limited_by_a_setting():
        raise LockRefused(
            f"the clock of {card.name} ({card.uuid}) is limited already, probably by a lock of another program. kbench "
            "does not replace that lock, because it cannot restore it after the run. Remove the lock with: "
            f"{unlock_command(card.uuid)} ; or leave out --lock-clocks"
        )


def _answer(**content: Any) -> None:
    with suppress(OSError):  # the run was killed and nobody reads
        os.write(sys.stdout.fileno(), json.dumps(content).encode() + b"\n")


if __name__ == "__main__":
    main()
