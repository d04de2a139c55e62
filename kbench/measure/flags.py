"""Flags: reasons to distrust a row that is otherwise ok. `kbench explain FLAG` says what to do about each.

Pure arithmetic on the numbers of a row. Every threshold has its reason beside it; `kbench explain` has them for readers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kbench.results.timers import TICK_MS, timer_kind
from kbench.results.vocabulary import Flag

OVERHEAD_SHARE = 0.20
"""If the `empty` control takes more than this share of a time, the time depends too much on the timer: a kernel that is twice
as fast as another then looks at most 1.7 times as fast."""

ROUND_SPREAD = 0.03
"""(max - min) / median of the round medians. On an H200, 95 % of the rows of 40 us and more stay within 1 %. Beyond 3 % there
was some disturbance, and `kbench compare` accepts no smaller change between single sessions."""

ROUND_TICKS = 4
"""A spread of this many ticks is rounding, however large its share of a very short time is: two ticks at each end."""

SAMPLE_SPREAD = 0.10
"""(p80 - p20) / median of the samples. Above this, the kernel does not have a single speed, which the median would hide."""

SAMPLE_JITTER_MS = 2e-3
"""Samples of any length may differ by this much. On an H200, p80 - p20 is about 1 us for kernels from 4 us to 100 us, and is
due to the events. So SAMPLE_SPREAD decides from 20 us on."""

MARGIN = 1.02
"""A time may beat the physical limit by this factor before it is `suspect`: room for rounding and for memory clocks."""

COPY_SHARE = 0.8
"""An unknown theoretical bandwidth is taken as the measured copy bandwidth divided by this. The copy of an H200 reaches 0.86
of the theoretical bandwidth, and a kernel that mostly reads comes closer to it than a copy."""

HOST_COPY_SHARE = 0.5
"""The same on the host, where a copy may move three bytes per two that count, and other programs use the memory too."""

COMPUTE_MARGIN = 3.0
"""A time may beat the compute ceiling by this factor before it is `suspect`. The ceiling is a measured product, not a
theoretical peak: on an H100 or H200, products in bfloat16 reach two thirds to four fifths of it, depending on power, clocks and
values. Consumer GPUs also compute float16 twice as fast if they add up in float16."""

SHORTER_MARGIN = 12.0
"""The same where a provider may compute in a shorter format than torch does. A float32 kernel may use tensor cores (TF32, or
several products of shorter numbers), with 7.4 times the float32 rate of an H200. An input of a shorter dtype than the case
(fp8, packed fp4) allows products with 2 or 4 times the rate. Of each rate, a measured product reaches two thirds."""

EVENT_SLACK_MS = 1e-3
"""How far `ms` minus `empty` may fall short of the kernel's own time. Both come from events, which tick every 32 ns, and
which cost one kernel some tenths of a us more than another."""


@dataclass(frozen=True)
class FlagEvidence:
    """The numbers from which flags follow: of one row, and of its case, device and session. None means unknown.

    bytes           algorithmic bytes of a call
    flops           floating-point operations of a call; 0 if the operator does not state them
    shorter         whether a provider may compute in a shorter format than the product that is the compute ceiling
    cache           `cold` only if calls really found a cold cache
    empty_ms        time of the case's `empty` control; for that control itself None
    prefill_ms      the longest that the timer can keep the device busy before a timed launch; 0 if it cannot
    ceiling_gbps    the session's copy bandwidth
    ceiling_tflops  the session's TFLOP/s of the best large matrix product of the case's dtype
    peak_gbps       the theoretical bandwidth
    altered         whether the provider has changed global settings
    same_ops        whether the provider runs the torch operators of the baseline
    unchecked       whether there is no reference to check it with
    """

    ms: float
    round_ms: tuple[float, ...]
    ms_p20: float
    ms_p80: float
    gbps: float
    bytes: int
    timer: str
    cache: str
    accelerated: bool
    prefill_ms: float
    flops: int = 0
    shorter: bool = False
    launch_ms: float | None = None
    empty_ms: float | None = None
    cache_bytes: int | None = None
    ceiling_gbps: float | None = None
    ceiling_tflops: float | None = None
    peak_gbps: float | None = None
    throttle: str = ""
    altered: bool = False
    same_ops: bool = False
    unchecked: bool = False


def flags(row: FlagEvidence) -> tuple[Flag, ...]:
    """The flags of a row, in the order of `Flag`. What is not known raises no flag."""
    raised = {
        Flag.SUSPECT: bool(suspicion(row)),
        Flag.UNCHECKED: row.unchecked,
        Flag.SAME_OPS: row.same_ops,
        Flag.HOST_BOUND: host_bound(row),
        Flag.OVERHEAD_BOUND: overhead_bound(row),
        Flag.L2_RESIDENT: l2_resident(row),
        Flag.THROTTLED: throttled(row),
        Flag.NOISY: noisy(row),
        Flag.ALTERED_STATE: row.altered,
    }
    return tuple(flag for flag in Flag if raised[flag])


def suspicion(row: FlagEvidence) -> str:
    """Why a row is faster than it can be; empty if it is not."""
    counts = "the script counts" if row.unchecked else "the operator counts"
    undone = "either the timed call does not do the work, or"
    if beats_memory(row):
        speed = f"{row.bytes:,} bytes in {row.ms:.4g} ms are {row.gbps:,.0f} GB/s"
        which = "" if row.unchecked else " (bytes=)"
        return f"{speed}, but the memory moves at most {_most_gbps(row):,.0f} GB/s; {undone} {counts} too many bytes{which}"
    if beats_arithmetic(row):
        speed = f"{row.flops:,} operations in {row.ms:.4g} ms are {row.flops / row.ms * 1e-9:,.0f} TFLOP/s"
        which = "" if row.unchecked else " (flops=)"
        return f"{speed}, but the device computes at most {_most_tflops(row):,.0f} TFLOP/s; {undone} {counts} too many{which}"
    return ""


def beats_memory(row: FlagEvidence) -> bool:
    """Faster than the memory allows, by more than the cache can explain."""
    most_gbps = _most_gbps(row)
    return row.gbps > most_gbps and kernel_ms(row) < uncached_bytes(row) / most_gbps * 1e-6


def _most_gbps(row: FlagEvidence) -> float:
    """The highest speed of the memory that is possible; infinite if it is not known."""
    if row.peak_gbps:
        return MARGIN * row.peak_gbps
    if row.ceiling_gbps:
        return MARGIN * row.ceiling_gbps / (COPY_SHARE if row.accelerated else HOST_COPY_SHARE)
    return math.inf


def beats_arithmetic(row: FlagEvidence) -> bool:
    """Faster than the best large matrix product, by more than a better kernel can explain."""
    shortest_ms = row.flops / _most_tflops(row) * 1e-9
    return row.ms < shortest_ms and kernel_ms(row) < shortest_ms


def _most_tflops(row: FlagEvidence) -> float:
    """The highest speed of arithmetic that is possible; infinite if it is not known."""
    return (row.ceiling_tflops or math.inf) * (SHORTER_MARGIN if row.shorter else COMPUTE_MARGIN)


def kernel_ms(row: FlagEvidence) -> float:
    """The longest that the kernel itself can have taken."""
    return row.ms - (row.empty_ms or 0.0) + EVENT_SLACK_MS


def uncached_bytes(row: FlagEvidence) -> float:
    """The bytes that must cross the memory bus within the timed call.

    With a cold cache all reads must, but the writes (taken as half of the bytes) may still be in the cache when the call
    ends. With a warm cache all bytes may be in it. The same holds on a host, because no flush is sure to empty its caches.
    """
    cold = row.cache == "cold" and row.accelerated
    held = row.bytes / 2 if cold else row.bytes
    if row.cache_bytes is not None:
        held = min(held, row.cache_bytes)
    return row.bytes - held


def host_bound(row: FlagEvidence) -> bool:
    """The host needs longer for a launch than the device can be kept busy, so the device may have waited between the events.

    A replayed graph needs no launches. On the host, a launch is the work itself.
    """
    return (
        row.accelerated
        and timer_kind(row.timer).launches
        and row.launch_ms is not None
        and row.launch_ms > row.prefill_ms
    )


def overhead_bound(row: FlagEvidence) -> bool:
    return timer_kind(row.timer).adds and row.empty_ms is not None and row.empty_ms > OVERHEAD_SHARE * row.ms


def l2_resident(row: FlagEvidence) -> bool:
    """All bytes of a call fit into the last-level cache, and nothing displaced them before the call. A host says nothing: no
    flush is sure to empty its caches, and calls are warm by default."""
    return row.accelerated and row.cache == "warm" and row.cache_bytes is not None and row.bytes <= row.cache_bytes


def throttled(row: FlagEvidence) -> bool:
    """The device lowered its clocks for a reason other than being idle."""
    return any(reason not in ("", "idle") for reason in row.throttle.split(";"))


def noisy(row: FlagEvidence) -> bool:
    rounds = max(row.round_ms) - min(row.round_ms) if row.round_ms else 0.0
    if rounds > max(ROUND_SPREAD * row.ms, ROUND_TICKS * TICK_MS):
        return True
    return row.ms_p80 - row.ms_p20 > max(SAMPLE_SPREAD * row.ms, SAMPLE_JITTER_MS)
