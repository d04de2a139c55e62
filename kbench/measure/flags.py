"""Flags: what a reader should distrust about a row that is otherwise ok. `kbench explain FLAG` says what to do about each.

Pure arithmetic on a row's numbers. Every threshold stands here with its reason; docs/measuring.md lists them for readers.
"""

from __future__ import annotations

from dataclasses import dataclass

from kbench.results.row import TICK_MS
from kbench.results.timers import timer_kind

SUSPECT = "suspect"
HOST_BOUND = "host-bound"
OVERHEAD_BOUND = "overhead-bound"
L2_RESIDENT = "l2-resident"
THROTTLED = "throttled"
NOISY = "noisy"

FLAGS = (SUSPECT, HOST_BOUND, OVERHEAD_BOUND, L2_RESIDENT, THROTTLED, NOISY)
"""All flags, in the order in which a row lists them: the gravest first."""

OVERHEAD_SHARE = 0.20
"""The `empty` control's share of a time above which the time says more about the timer than about the kernel: two kernels
of which one is twice as fast then look at most 1.7 times apart."""

ROUND_SPREAD = 0.03
"""(max - min) / median of the round medians. On an H200 95 % of the rows of 40 us and more stay within 1 %; beyond 3 %
something else took part, and `kbench compare` believes no smaller change between single sessions."""

ROUND_TICKS = 4
"""Spreads of so few ticks are rounding, whatever share of a very short time they are: two ticks for either end."""

SAMPLE_SPREAD = 0.10
"""(p80 - p20) / median of the samples: above it the median hides that the kernel has no one speed."""

SAMPLE_JITTER_MS = 2e-3
"""Samples may differ by this much at any length: on an H200 p80 - p20 is about 1 us from 4 us to 100 us kernels, and comes
from the events. So SAMPLE_SPREAD decides from 20 us on."""

MARGIN = 1.02
"""A time may beat the physical limit by so much before it is `suspect`: room for rounding and for memory clocks."""

COPY_SHARE = 0.8
"""Where the theoretical bandwidth is not known it is taken as the measured copy bandwidth over this: an H200's
copy reaches 0.86 of theory, and code that mostly reads comes nearer to it than a copy does."""

HOST_COPY_SHARE = 0.5
"""The same on the host, where a copy may move three bytes for two that count, and other programs share the memory."""

SLACK_MS = 1e-3
"""How far `ms` less `empty` may fall short of the time that the kernel itself took. Both are of events, which tick every
32 ns and cost one kernel some tenths of a us more than another."""


@dataclass(frozen=True)
class Evidence:
    """What flags are decided from: one row, and what is known of its case, device and session.

    `bytes` are the algorithmic bytes of a call. `cache` is `cold` only where calls really found it so. `empty_ms` is the
    time of the case's `empty` control; that control itself gets no flags. `prefill_ms` is the longest that the device can be
    kept busy before a timed launch, 0 where it cannot. `ceiling_gbps` is the session's copy bandwidth, `peak_gbps` the
    theoretical one. None is "not known".
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
    launch_ms: float | None = None
    empty_ms: float | None = None
    cache_bytes: int | None = None
    ceiling_gbps: float | None = None
    peak_gbps: float | None = None
    throttle: str = ""


def flags(row: Evidence) -> tuple[str, ...]:
    """The flags of a row, in the order of FLAGS. What is not known raises no flag."""
    raised = {
        SUSPECT: suspect(row),
        HOST_BOUND: host_bound(row),
        OVERHEAD_BOUND: overhead_bound(row),
        L2_RESIDENT: l2_resident(row),
        THROTTLED: throttled(row),
        NOISY: noisy(row),
    }
    return tuple(flag for flag in FLAGS if raised[flag])


def suspect(row: Evidence) -> bool:
    """Above what the memory can deliver, and by more than the cache can explain."""
    if row.peak_gbps:
        limit_gbps = MARGIN * row.peak_gbps
    elif row.ceiling_gbps:
        limit_gbps = MARGIN * row.ceiling_gbps / (COPY_SHARE if row.accelerated else HOST_COPY_SHARE)
    else:
        return False
    kernel_ms = row.ms - (row.empty_ms or 0.0) + SLACK_MS
    return row.gbps > limit_gbps and kernel_ms < uncached_bytes(row) / limit_gbps * 1e-6


def uncached_bytes(row: Evidence) -> float:
    """The least that must cross the memory bus within the timed call.

    A cold cache has nothing to read, but what the call writes (taken as half of its bytes) may still be in the cache,
    dirty, when the call ends. In a warm cache, and on a host, whose caches no flush is sure to empty, anything may be.
    """
    cold = row.cache == "cold" and row.accelerated
    held = row.bytes / 2 if cold else row.bytes
    if row.cache_bytes is not None:
        held = min(held, row.cache_bytes)
    return row.bytes - held


def host_bound(row: Evidence) -> bool:
    """The host needs longer to launch a call than the device can be kept busy: it may have waited between the events.

    A replayed graph needs no launches, and on the host launching is the work.
    """
    return (
        row.accelerated
        and timer_kind(row.timer).launches
        and row.launch_ms is not None
        and row.launch_ms > row.prefill_ms
    )


def overhead_bound(row: Evidence) -> bool:
    return row.empty_ms is not None and row.empty_ms > OVERHEAD_SHARE * row.ms


def l2_resident(row: Evidence) -> bool:
    """All that a call touches fits into the last-level cache, and nothing displaced it before the call."""
    return row.cache == "warm" and row.cache_bytes is not None and row.bytes <= row.cache_bytes


def throttled(row: Evidence) -> bool:
    """The device held its clocks down for a reason other than having nothing to do."""
    return any(reason not in ("", "idle") for reason in row.throttle.split(";"))


def noisy(row: Evidence) -> bool:
    rounds = max(row.round_ms) - min(row.round_ms) if row.round_ms else 0.0
    if rounds > max(ROUND_SPREAD * row.ms, ROUND_TICKS * TICK_MS):
        return True
    return row.ms_p80 - row.ms_p20 > max(SAMPLE_SPREAD * row.ms, SAMPLE_JITTER_MS)
