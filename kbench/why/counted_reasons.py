"""The reasons that follow from hardware counters, each in a sentence with the number that it rests on.

A kernel counts with its share of the time that all kernels of the call took while they were counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kbench.counters.kernel_counters import NO_STALL, KernelCounters
from kbench.counters.stalls import explain_stall
from kbench.why.facts import RowFacts
from kbench.why.reason import Reason

FEW_WARPS = 0.25
"""Below this share of the warps that fit, a multiprocessor may not have enough to do while memory answers."""

MOST_EXTRA = 1.1
"""Up to this multiple of its algorithmic bytes, a call moves what it has to: tables and partial results come on top."""

BUSY_PERCENT = 80.0
"""From this share of its peak on, a unit of the device bounds the time."""

SYMPTOMS = ("extra-bytes", "memory-bound", "compute-bound", "stalled")
"""Reasons that follow from others. They come after a reason that explains the time."""


def counted_reasons(facts: RowFacts) -> list[Reason]:
    """The reasons that the counters of a row show; none without counters."""
    return [reason for find in _FINDERS for reason in find(facts)] if facts.counters else []


def judged_kinds(facts: RowFacts) -> set[str]:
    """The kinds of reasons that the counters decide, whether they confirm them or not. What the launches say about them is only
    an estimate."""
    kinds = set()
    if any(one.local_bytes is not None for one in facts.counters):
        kinds.add("spills")
    if any(one.warps_percent is not None for one in facts.counters):
        kinds.add("low-occupancy")
    if any(one.dram_bytes is not None for one in facts.counters):
        kinds.add("extra-bytes")
    return kinds


def _uncoalesced(facts: RowFacts) -> Iterator[Reason]:
    for one in facts.counters:
        found = [
            (used, sectors / requests, word)
            for used, sectors, requests, word in (
                (one.load_used_percent, one.load_sectors, one.load_requests, "load"),
                (one.store_used_percent, one.store_sectors, one.store_requests, "store"),
            )
            if used is not None and requests and sectors
        ]
        if found and one.wasted_bytes and facts.call_bytes:
            used, touched, word = min(found)
            yield Reason(
                "uncoalesced",
                one.wasted_bytes / (one.wasted_bytes + facts.call_bytes),
                f"Threads of kernel {one.function} use {used:.0f}% of the bytes that their {word}s move: a {word} of a warp "
                f"touches {touched:.1f} sectors of 32 bytes. Neighbouring threads should access neighbouring addresses.",
            )


def _spills(facts: RowFacts) -> Iterator[Reason]:
    for one in facts.counters:
        if one.local_bytes and facts.call_bytes:
            yield Reason(
                "spills",
                one.local_bytes / (one.local_bytes + facts.call_bytes),
                f"Kernel {one.function} reads and writes {one.local_bytes / 1e6:.1f} MB of local memory, beside the "
                f"{facts.call_bytes / 1e6:.1f} MB of the operator. These are spilled registers, or arrays that cannot be in "
                "registers.",
            )


def _low_occupancy(facts: RowFacts) -> Iterator[Reason]:
    for one, share in _shares(facts):
        if one.warps_percent is None or one.warps_percent >= 100 * FEW_WARPS:
            continue
        fewest = min(one.limits.values(), default=0.0)
        names = [_LIMITS.get(name, name.replace("_", " ")) for name, blocks in one.limits.items() if blocks == fewest]
        blocks = f"{fewest:.0f} block{'s fit' if fewest != 1 else ' fits'}"
        limited = f" (at most {blocks}, because of {' and '.join(names)})" if names else ""
        yield Reason(
            "low-occupancy",
            share * (1 - one.warps_percent / (100 * FEW_WARPS)),
            f"While kernel {one.function} runs, a multiprocessor holds {one.warps_percent:.0f}% of the warps that it could "
            f"hold{limited}. So few warps may not hide the time that memory needs to answer, unless each has many loads in "
            "flight.",
        )


def _extra_bytes(facts: RowFacts) -> Iterator[Reason]:
    known = [one.dram_bytes for one in facts.counters if one.dram_bytes is not None]
    moved = sum(known)
    if known and facts.call_bytes and moved > MOST_EXTRA * facts.call_bytes:
        yield Reason(
            "extra-bytes",
            1 - facts.call_bytes / moved,
            f"The kernels move {moved / 1e6:.1f} MB from and to the device's memory, {moved / facts.call_bytes:.1f} times the "
            f"{facts.call_bytes / 1e6:.1f} MB that they have to{_caches(facts)}.",
        )


def _bound(facts: RowFacts) -> Iterator[Reason]:
    for one, share in _shares(facts):
        for kind, percent, unit in (
            ("memory-bound", one.dram_percent, "the device's memory"),
            ("compute-bound", one.sm_percent, "the multiprocessors"),
        ):
            if percent is not None and percent >= BUSY_PERCENT:
                yield Reason(
                    kind,
                    share * min(percent / 100, 1.0),
                    f"Kernel {one.function} keeps {unit} busy at {percent:.0f}% of the peak: it becomes faster only if it has "
                    f"less to {'move' if kind == 'memory-bound' else 'compute'}.",
                )


def _stalled(facts: RowFacts) -> Iterator[Reason]:
    for one, share in _shares(facts):
        waits = {name: part for name, part in one.stalls.items() if name not in NO_STALL}
        if waits:
            name = max(waits, key=lambda each: waits[each])
            yield Reason(
                "stalled",
                share * waits[name],
                f"Warps of kernel {one.function} spend {waits[name]:.0%} of their time waiting {explain_stall(name)} "
                f"({name}).",
            )


def _shares(facts: RowFacts) -> Iterator[tuple[KernelCounters, float]]:
    """Each kernel with its share of the time."""
    total = sum(one.time_ns or 0.0 for one in facts.counters)
    for one in facts.counters:
        yield one, (one.time_ns or 0.0) / total if total else 1 / len(facts.counters)


def _caches(facts: RowFacts) -> str:
    """What to know of the caches beside the bytes that were moved."""
    if len(facts.counters) > 1 and facts.cache != "warm":
        return ", if no kernel finds in a cache what the one before it has left there"
    rate = facts.counters[0].l2_hit_percent
    return f"; {rate:.0f}% of the accesses to the L2 cache hit" if rate is not None and rate <= 100 else ""


_LIMITS = {"shared_mem": "shared memory", "warps": "threads", "barriers": "barriers"}
"""What `launch__occupancy_limit_...` calls the resources that `Occupancy.limits` names otherwise."""

_FINDERS: tuple[Callable[[RowFacts], Iterator[Reason]], ...] = (
    _uncoalesced,
    _spills,
    _low_occupancy,
    _extra_bytes,
    _bound,
    _stalled,
)
