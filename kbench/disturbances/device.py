"""The NVIDIA device: its clocks and settings, and other programs on it."""

from __future__ import annotations

from collections.abc import Iterator

from kbench.clocks.cards import Card, CardError
from kbench.clocks.lock_card import unlock_command
from kbench.clocks.lock_files import held_locks, lost_locks
from kbench.disturbances.disturbance import Disturbance


def device_disturbances(card: Card) -> Iterator[Disturbance]:
    """What distorts timings on a device on which this process computes nothing."""
    pids = card.process_ids()
    if pids:
        several = f"{len(pids)} other process{'es compute' if len(pids) > 1 else ' computes'}"
        yield Disturbance(
            f"{several} on this device: {', '.join(map(str, pids))}.",
            "Kernels wait for those of other processes and share the memory and the power with them.",
            f"nvidia-smi -i {card.uuid} --query-compute-apps=pid,process_name,used_memory --format=csv",
        )
    yield from _clocks(card)
    if card.persistent() is False:
        yield Disturbance(
            "Persistence mode is off.",
            "The driver unloads when no program uses the device: the next one starts later, with a cold device and without "
            "settings such as locked clocks.",
            f"sudo nvidia-smi -i {card.uuid} --persistence-mode=1",
        )
    yield from _ecc(card)


def _clocks(card: Card) -> Iterator[Disturbance]:
    with lost_locks() as lost:
        left = [lock for lock in lost if lock.uuid == card.uuid]
    if left:
        yield Disturbance(
            f"A kbench run was killed and left the clocks locked, since {left[0].since}.",
            "Kernels run at that clock and not at the one that the device would choose.",
            "kbench doctor --unlock",
        )
    if left or any(lock.uuid == card.uuid for lock in held_locks()):
        return
    try:
        limited, mhz = card.limited_by_a_setting(), card.sm_mhz()
    except CardError:  # it does not tell its clock
        return
    if limited:
        yield Disturbance(
            f"The clock is limited to {mhz} MHz, probably by a lock of another program.",
            "Results are comparable only with those that were measured under the same setting.",
            f"kbench doctor --unlock, or {unlock_command(card.uuid)}",
        )
        return
    application = card.application_mhz()
    if application and application[0] != application[1]:
        yield Disturbance(
            f"The application clock is {application[0]} MHz; the default is {application[1]} MHz.",
            "Results are comparable only with those that were measured under the same setting.",
            f"sudo nvidia-smi -i {card.uuid} --reset-applications-clocks",
        )
    if card.lockable():
        highest = card.max_sm_mhz()
        upto = "" if highest is None else f": it may be anything up to {highest} MHz"
        yield Disturbance(
            f"The clock is not locked{upto}.",
            "It changes with load, power and temperature, and the times of compute-bound kernels with it.",
            'sudo env PATH="$PATH" kbench run CONFIG --lock-clocks base',
        )


def _ecc(card: Card) -> Iterator[Disturbance]:
    modes = card.ecc()
    if modes is None:
        return
    if modes.now != modes.pending:
        yield Disturbance(
            f"ECC is {_on(modes.now)} and will be {_on(modes.pending)} after the next restart.",
            "The bandwidth of some devices differs with ECC, so results before and after are not comparable.",
            f"sudo nvidia-smi -i {card.uuid} --ecc-config={int(modes.now)}",
        )
    elif not modes.now:
        yield Disturbance(
            "ECC is off.",
            "The bandwidth of some devices is higher without ECC than on most servers, where it is on.",
            f"sudo nvidia-smi -i {card.uuid} --ecc-config=1 && sudo reboot",
        )


def _on(state: bool) -> str:
    return "on" if state else "off"
