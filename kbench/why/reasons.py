"""The reasons for the time of a row, each in a sentence with the number that it rests on, the most important first.

Each reason has a weight: an estimate of the share of the time that would go away without it. The estimates are rough. They
only decide the order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from kbench.launches.launched_call import KernelLaunch
from kbench.results.timers import timer_kind
from kbench.results.vocabulary import Flag
from kbench.text.numbers import microseconds
from kbench.text.words import plural
from kbench.why.facts import RowFacts

AT_SPEED = 0.9
"""From this share of the speed of light, or of the speed of a copy of the same bytes, on, there is little left to gain."""

GAP_MS = 1e-3
"""About what a device waits between two kernels of a stream (0.6 to 0.9 us on an H200)."""

FEW_THREADS = 0.25
"""Below this share of the threads that fit, a multiprocessor may not have enough to do while memory answers."""

SLOW_CLOCK = 0.95
"""A clock below this share of the highest one is worth a sentence."""

WORTH_SAYING = 0.1
"""Reasons with a smaller weight are left out."""

EXPLAINS = 0.3
"""If no reason has this weight, kbench says that the launches do not explain the time."""

MOST_KERNELS = 3
"""With more kernels, kbench does not know in which of them the time goes. Then their resources explain nothing, and neither do
those of a kernel that does a small share of the work."""


@dataclass(frozen=True)
class Reason:
    """A reason for the time of a row.

    kind    a word for programs
    weight  0 to 1: about which share of the time it explains
    """

    kind: str
    weight: float
    sentence: str


def find_reasons(facts: RowFacts) -> list[Reason]:
    """The reasons for the time of a row, the most important first. There is always one for a row with a time."""
    if facts.row.ms is None:
        why = filter(None, [facts.row.status, facts.row.shown_reason])
        return [Reason("no-time", 1.0, f"It has no time ({': '.join(why)}).")]
    if suspect := [row.reason for row in facts.rows if Flag.SUSPECT in row.flags]:
        return [Reason("no-time", 1.0, f"Its time is suspect: {suspect[0]}.")]
    few = facts.call is not None and facts.call.kernels <= MOST_KERNELS
    launches = [launch for launch, share in _shares(facts) if few and share >= WORTH_SAYING]
    of_kernels = (reason for launch in launches for reason in _of_kernel(launch, facts))
    reasons = [reason for reason in (*_of_call(facts, facts.row.ms), *of_kernels) if reason.weight >= WORTH_SAYING]
    if max(facts.light or 0.0, facts.row.copy_fraction or 0.0) >= AT_SPEED:
        # A kernel at full speed is not slow because of how it is launched. Only the host can still make it wait.
        reasons = [reason for reason in reasons if reason.kind == "host-bound"]
        reasons.append(Reason("at-speed", 0.5, f"It reaches {_reached(facts)}: there is little left to gain."))
    elif max((reason.weight for reason in reasons), default=0.0) < EXPLAINS:
        reasons.append(_unexplained(facts))
    return sorted(reasons, key=lambda reason: -reason.weight)


def _of_call(facts: RowFacts, ms: float) -> Iterator[Reason]:
    """What the numbers of a row tell, which has this time."""
    row = facts.row
    if row.launch_ms and row.launch_ms > ms:
        yield Reason(
            "host-bound",
            1 - ms / row.launch_ms,
            f"The host takes {microseconds(row.launch_ms)} us to launch a call, and the device {microseconds(ms)} us to run "
            "it: a program that only makes these calls waits for the host.",
        )
    if row.kernels and row.kernels > 1:
        gap_ms, waits = (row.kernels - 1) * GAP_MS, "Between two of them the device waits about a microsecond"
        if row.gap_ms is not None:
            gap_ms = row.gap_ms
            waits = f"In {microseconds(gap_ms)} of the {microseconds(ms)} us none of them runs"
        yield Reason(
            "many-kernels",
            max(min(gap_ms / ms, 1.0), _beside_the_largest(facts)),
            f"A call launches {row.kernels} kernels. {waits}, and what one kernel writes to memory, the next one reads again.",
        )
    if facts.moved and facts.moved > 1:
        yield Reason(
            "extra-bytes",
            (1 - 1 / facts.moved) / 2,  # often a consequence of another reason
            f"By its own account, the provider moves {facts.moved:.1f} times the bytes that it has to.",
        )
    if row.sm_mhz and facts.top_mhz and row.sm_mhz < SLOW_CLOCK * facts.top_mhz:
        yield Reason(
            "slow-clock",
            1 - row.sm_mhz / facts.top_mhz,
            f"The device ran at {row.sm_mhz:.0f} MHz. Its highest clock is {facts.top_mhz:.0f} MHz.",
        )
    if facts.empty_ms and 0 < facts.empty_ms < ms and timer_kind(row.timer).adds:
        yield Reason(
            "timer-overhead",
            facts.empty_ms / ms / 2,  # it is the same for all providers of the case
            f"Of the {microseconds(ms)} us, the timer itself takes about {microseconds(facts.empty_ms)} us (control empty).",
        )


def _beside_the_largest(facts: RowFacts) -> float:
    """The share of a call's work that its largest kernel does not do. A kernel beside it that adds up a few numbers or clears a
    counter costs little."""
    shares = [share / launch.times for launch, share in _shares(facts)]
    return 1 - max(shares, default=1 / (facts.row.kernels or 1))


def _shares(facts: RowFacts) -> list[tuple[KernelLaunch, float]]:
    """The launches of a call, each with its share of the work, if threads do alike work."""
    launches = facts.call.launches if facts.call else ()
    threads = [prod(launch.grid) * prod(launch.block) * launch.times for launch in launches]
    return [(launch, count / (sum(threads) or 1)) for launch, count in zip(launches, threads, strict=True)]


def _of_kernel(launch: KernelLaunch, facts: RowFacts) -> Iterator[Reason]:
    """What the resources of a kernel tell."""
    kernel = launch.kernel
    blocks, threads = prod(launch.grid), prod(launch.block)
    whole = facts.limits.multiprocessors if facts.limits else 0
    occupancy = facts.occupancy(launch)
    if kernel.local_bytes and facts.call_bytes:
        moved = 2.0 * kernel.local_bytes * blocks * threads * launch.times
        yield Reason(
            "spills",
            moved / (moved + facts.call_bytes),
            f"Kernel {kernel.name} keeps {kernel.local_bytes} bytes of each thread in local memory, beside "
            f"{kernel.registers} registers. These are spilled registers, or arrays that cannot be in registers (indexed at "
            "run time); they are written to memory and read again.",
        )
    if 0 < blocks < whole:
        yield Reason(
            "few-blocks",
            1 - blocks / whole,
            f"Kernel {kernel.name} has {plural(blocks, 'block')}, and the device has {whole} "
            f"multiprocessors: {whole - blocks} of them have nothing to do.",
        )
    if occupancy and facts.limits and occupancy.share < FEW_THREADS:
        which = f": {' and '.join(occupancy.limits)} allow no more blocks" if occupancy.limits else ""
        yield Reason(
            "low-occupancy",
            1 - occupancy.share / FEW_THREADS,
            f"A multiprocessor holds {occupancy.blocks * threads} of {facts.limits.threads} possible threads of "
            f"kernel {kernel.name}{which}. So few threads may not hide the time that memory needs to "
            "answer, unless each has many loads in flight.",
        )
    if occupancy and occupancy.waves > 1:
        passes = -(-occupancy.waves // 1)
        yield Reason(
            "last-wave",
            1 - occupancy.waves / passes,
            f"Kernel {kernel.name} has {blocks} blocks, and the device holds {blocks / occupancy.waves:.0f} at a "
            f"time: in the last of {passes:.0f} passes, a part of the device has nothing to do.",
        )


def _unexplained(facts: RowFacts) -> Reason:
    """What remains if the launches do not explain the time: how the kernel uses memory, or what it computes."""
    reached = _reached(facts)
    how_near = f"It reaches {reached}" if reached else "How near it is to the speed of light is not known"
    kind, why = "unknown", ". What its calls launch is not known, so kbench cannot say why."
    if facts.call and facts.call.kernels:
        kind = "inside-the-kernel"
        why = (
            ", and its launches do not explain its time: the cause is inside the kernel. Look at how it uses memory, and at "
            "its instructions. Neighbouring threads should access neighbouring addresses, 16 bytes at a time."
        )
    elif facts.call:
        kind, why = "no-kernel", ". The call launches no kernel, only copies or fills of the driver."
    elif facts.environment.device_type == "cpu":
        why = (
            ". kbench does not see what a call does on a CPU. Each operator of torch reads its inputs from memory and writes "
            "its result there: make fewer such passes."
        )
    return Reason(kind, 1.0, how_near + why)


def _reached(facts: RowFacts) -> str:
    """How near a row is to what is possible: `49% of the speed of light, and 88% of the speed of a copy of the same bytes`. At
    small sizes a copy, too, is far from the speed of light."""
    sol, copy = facts.light, facts.row.copy_fraction
    shares = [
        "" if sol is None else f"{sol:.0%} of the speed of light",
        "" if copy is None else f"{copy:.0%} of the speed of a copy of the same bytes",
    ]
    return ", and ".join(filter(None, shares))
