"""What the hardware counted, as lines of the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kbench.counters.kernel_counters import NO_STALL, KernelCounters
from kbench.counters.stalls import explain_stall
from kbench.text.terminal import microseconds
from kbench.why.facts import RowFacts

STALLS_SHOWN = 3

LEAST_STALL = 0.05
"""Smaller shares of a warp's time are left out."""

LEAST_CACHED = 0.1
"""What is still in the L2 cache is worth saying from this share of what was written to memory on."""


def counted_lines(facts: RowFacts) -> Iterator[str]:
    """A line for each kernel, and one more for what its warps wait for. Instances of one template have their whole names."""
    alike = Counter(one.function for one in facts.counters)
    for one in facts.counters:
        name = one.function if alike[one.function] == 1 else one.name
        times = f" ({one.launches} times)" if one.launches > 1 else ""
        yield f"{name}{times}: {', '.join(_parts(one)) or 'nothing that kbench knows was counted'}"
        if waits := _waits(one):
            yield f"{name}: of their time, the warps wait {waits}"


def _parts(one: KernelCounters) -> Iterator[str]:
    if one.time_ns is not None:
        yield f"{microseconds(one.time_ns / 1e6)} us while counting"
    if one.dram_read_bytes is not None and one.dram_write_bytes is not None:
        yield f"{_mb(one.dram_read_bytes)} MB read from the device's memory and {_mb(one.dram_write_bytes)} MB written to it"
    if one.cached_bytes and one.cached_bytes > LEAST_CACHED * (one.dram_write_bytes or 0.0):
        whose = "at its end" if one.launches == 1 else "at the end of each"
        yield f"{_mb(one.cached_bytes / one.launches)} MB of what was stored are still in the L2 cache {whose}"
    if one.dram_percent is not None:
        yield f"memory at {one.dram_percent:.0f}% of its peak"
    if one.sm_percent is not None:
        yield f"multiprocessors at {one.sm_percent:.0f}% of theirs"
    if one.l2_hit_percent is not None and one.l2_hit_percent <= 100:  # an H200 has counted 151% of one kernel
        yield f"L2 hit rate {one.l2_hit_percent:.0f}%"
    if one.warps_percent is not None:
        yield f"achieved occupancy {one.warps_percent:.0f}%"
    for word, used in (("loads", one.load_used_percent), ("stores", one.store_used_percent)):
        if used:
            yield f"{word} use {used:.0f}% of the bytes that they move"
    if one.local_bytes:
        yield f"{_mb(one.local_bytes)} MB of local memory read and written"


def _waits(one: KernelCounters) -> str:
    found = sorted(
        ((share, name) for name, share in one.stalls.items() if name not in NO_STALL and share >= LEAST_STALL),
        reverse=True,
    )
    return "; ".join(f"{share:.0%} {explain_stall(name)} ({name})" for share, name in found[:STALLS_SHOWN])


def _mb(count: float) -> str:
    return f"{count / 1e6:.1f}"
