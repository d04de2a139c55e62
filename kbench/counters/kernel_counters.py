"""What the hardware counted while a kernel ran, and the names that Nsight Compute gives to these numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from kbench.launches.launched_call import LaunchedCall

SECTOR_BYTES = 32
"""The unit in which an NVIDIA device moves memory between its caches."""

NCU_METRICS: Mapping[str, tuple[str, ...]] = {
    "time_ns": ("gpu__time_duration.sum",),
    "dram_read_bytes": ("dram__bytes_read.sum", "dram__bytes_op_read.sum"),
    "dram_write_bytes": ("dram__bytes_write.sum", "dram__bytes_op_write.sum"),
    "dram_percent": ("dram__throughput.avg.pct_of_peak_sustained_elapsed",),
    "sm_percent": ("sm__throughput.avg.pct_of_peak_sustained_elapsed",),
    "l2_hit_percent": ("lts__t_sector_hit_rate.pct",),
    "warps_percent": ("sm__warps_active.avg.pct_of_peak_sustained_active",),
    "load_used_percent": ("smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct",),
    "store_used_percent": ("smsp__sass_average_data_bytes_per_sector_mem_global_op_st.pct",),
    "load_requests": ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",),
    "load_sectors": ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",),
    "load_missed_sectors": ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_miss.sum",),
    "store_requests": ("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",),
    "store_sectors": ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",),
    "local_load_sectors": ("l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",),
    "local_store_sectors": ("l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum",),
}
"""The metrics of Nsight Compute behind the fields of `KernelCounters`. Devices name some differently: the first name that a
report has is used."""

STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+?)_per_issue_active\.ratio")
SAMPLED_STALL = re.compile(r"smsp__pcsamp_warps_issue_stalled_(\w+)")
LIMIT = re.compile(r"launch__occupancy_limit_(\w+)")

NO_STALL = ("selected", "not_selected")
"""States of a warp that could issue its next instruction."""

NOT_ISSUED = "_not_issued"
"""The end of the names of a second count, of the cycles in which no warp of the scheduler issued."""


@dataclass(frozen=True)
class KernelCounters:
    """What was counted in the launches of a kernel. None for what the report does not have.

    name                 as the report writes it: the symbol, or the name that programmers write
    launches             how many launches the numbers are of
    time_ns              all launches together, in ns
    dram_read_bytes      moved from the device's memory, all launches together; `dram_write_bytes` to it
    dram_percent         of the highest throughput of the device's memory; `sm_percent` of that of the multiprocessors
    l2_hit_percent       of the accesses to the L2 cache
    warps_percent        achieved occupancy: warps on a multiprocessor, of those that it can hold
    load_used_percent    bytes that threads asked for, of those that the loads from global memory moved into the L1 cache;
                         `store_used_percent` the same for stores
    load_requests        instructions of warps that load from global memory, and their `load_sectors` of 32 bytes, of which
                         `load_missed_sectors` were not in the L1 cache; the same for stores, which all leave that cache
    local_load_sectors   sectors of local memory: spilled registers, and arrays that are not in registers
    stalls               the share of their time in which warps are in each state, by NVIDIA's name of the state
    limits               blocks that a multiprocessor holds, by the resource that limits them
    """

    name: str
    launches: int = 1
    time_ns: float | None = None
    dram_read_bytes: float | None = None
    dram_write_bytes: float | None = None
    dram_percent: float | None = None
    sm_percent: float | None = None
    l2_hit_percent: float | None = None
    warps_percent: float | None = None
    load_used_percent: float | None = None
    store_used_percent: float | None = None
    load_requests: float | None = None
    load_sectors: float | None = None
    load_missed_sectors: float | None = None
    store_requests: float | None = None
    store_sectors: float | None = None
    local_load_sectors: float | None = None
    local_store_sectors: float | None = None
    stalls: Mapping[str, float] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)

    @property
    def dram_bytes(self) -> float | None:
        """Bytes moved from and to the device's memory."""
        if self.dram_read_bytes is None and self.dram_write_bytes is None:
            return None
        return (self.dram_read_bytes or 0.0) + (self.dram_write_bytes or 0.0)

    @property
    def cached_bytes(self) -> float | None:
        """Bytes that the threads stored to global memory, and that had not left the L2 cache when the kernel ended; of all
        launches together. A thread that stores to the same place twice makes this too large."""
        if self.store_sectors is None or self.store_used_percent is None or self.dram_write_bytes is None:
            return None
        stored = self.store_sectors * SECTOR_BYTES * min(self.store_used_percent / 100, 1.0)
        return max(stored - self.dram_write_bytes, 0.0)

    @property
    def local_bytes(self) -> float | None:
        """Bytes of local memory that the threads read and wrote. Most of them may come from a cache."""
        if self.local_load_sectors is None and self.local_store_sectors is None:
            return None
        return ((self.local_load_sectors or 0.0) + (self.local_store_sectors or 0.0)) * SECTOR_BYTES

    @property
    def wasted_bytes(self) -> float | None:
        """Bytes that left the L1 cache, or came to it, without any thread having asked for them."""
        loaded = self.load_sectors if self.load_missed_sectors is None else self.load_missed_sectors
        known = [
            sectors * SECTOR_BYTES * (1 - min(used / 100, 1.0))
            for sectors, used in ((loaded, self.load_used_percent), (self.store_sectors, self.store_used_percent))
            if sectors and used is not None
        ]
        return sum(known) if known else None

    @property
    def function(self) -> str:
        """Its name without types, namespaces and arguments."""
        return function_name(self.name)


def from_metrics(name: str, values: Mapping[str, float]) -> KernelCounters:
    """The counters of one launch from Nsight Compute's metrics: times in ns, sizes in bytes."""
    known: dict[str, Any] = {}
    for each, metrics in NCU_METRICS.items():
        found = next((values[metric] for metric in metrics if metric in values), None)
        if found is not None:
            known[each] = found
    stalls = _shares(_matching(STALL, values)) or _shares(_matching(SAMPLED_STALL, values))
    return replace(KernelCounters(name), **known, stalls=stalls, limits=_matching(LIMIT, values))


def merged(counted: Iterable[KernelCounters]) -> list[KernelCounters]:
    """One for each name: sums of times, bytes and requests, and averages of shares, weighted by time."""
    named: dict[str, list[KernelCounters]] = {}
    for each in counted:
        named.setdefault(each.name, []).append(each)
    return [found[0] if len(found) == 1 else _merge(found) for found in named.values()]


def of_call(counted: Sequence[KernelCounters], call: LaunchedCall) -> list[KernelCounters]:
    """Those of the kernels that a call launches, with the names of these kernels, and as if the report were of one call: it may
    have fewer or more launches."""
    times: dict[str, int] = {}
    for launch in call.launches:
        times[launch.kernel.name] = times.get(launch.kernel.name, 0) + launch.times
    symbols = {each.kernel.symbol: each.kernel.name for each in call.launches}
    found = []
    for one in counted:
        name = symbols.get(one.name, one.name)
        alike = [name] if name in times else [each for each in times if function_name(each) == one.function]
        if len(alike) == 1:
            found.append(replace(_scaled(one, times[alike[0]]), name=alike[0]))
        elif alike:  # instances of one template, and it is not known which: the report is taken to be of one call
            found.append(one)
    return found


def function_name(name: str) -> str:
    """`void at::native::add<4, float>(int)` -> `add`; a name in machine code stays as it is."""
    plain = name.replace("(anonymous namespace)::", "").replace("<unnamed>::", "")
    words = re.split(r"[<(]", plain, maxsplit=1)[0].split()
    return words[-1].rpartition("::")[2] if words else name


def _matching(pattern: re.Pattern[str], values: Mapping[str, float]) -> dict[str, float]:
    found = {}
    for name, value in values.items():
        if (match := pattern.fullmatch(name)) and not match[1].endswith(NOT_ISSUED):
            found[match[1]] = value
    return found


def _shares(values: Mapping[str, float]) -> dict[str, float]:
    total = sum(values.values())
    return {name: value / total for name, value in values.items()} if total > 0 else {}


SUMS = (
    "launches",
    "time_ns",
    "dram_read_bytes",
    "dram_write_bytes",
    "load_requests",
    "load_sectors",
    "load_missed_sectors",
    "store_requests",
    "store_sectors",
    "local_load_sectors",
    "local_store_sectors",
)
"""The numbers of several launches are added. All others are averaged."""


def _merge(found: Sequence[KernelCounters]) -> KernelCounters:
    weights = [each.time_ns or 0.0 for each in found]
    weights = weights if any(weights) else [1.0] * len(found)
    values: dict[str, Any] = {}
    for each in fields(KernelCounters):
        known = [(getattr(one, each.name), weight) for one, weight in zip(found, weights, strict=True)]
        if each.name in SUMS:
            values[each.name] = (
                sum(value for value, _ in known) if all(value is not None for value, _ in known) else None
            )
        elif each.name not in ("name", "stalls", "limits"):
            values[each.name] = _average([(value, weight) for value, weight in known if value is not None])
    states = {state for one in found for state in one.stalls}
    total = sum(weights)
    stalls = {
        state: sum(one.stalls.get(state, 0.0) * weight for one, weight in zip(found, weights, strict=True)) / total
        for state in states
    }
    return replace(found[0], **values, stalls=stalls)


def _average(known: Sequence[tuple[float, float]]) -> float | None:
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None


def _scaled(counted: KernelCounters, launches: int) -> KernelCounters:
    factor = launches / counted.launches
    sums = {name: value * factor for name in SUMS if (value := getattr(counted, name)) is not None}
    return replace(counted, **{**sums, "launches": launches})
