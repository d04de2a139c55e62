"""The host's CPU: its governor, and the cores on which kbench may run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from kbench import files
from kbench.disturbances.disturbance import Disturbance

SYSFS = Path("/sys")

OWN_GROUP = Path("/proc/self/cgroup")
"""Names the control group of this process: `0::/system.slice/job.scope`."""

_MOST_BYTES = 4096
"""How much of a file of the system is read. They hold a word or a list of cores."""

FEW_CORES = 4
"""With fewer cores the thread that launches kernels shares its core: with kbench's parent process, the driver's threads, or
compilers."""


def host_disturbances(pci_address: str | None = None) -> Iterator[Disturbance]:
    """What distorts timings on the host. `pci_address` of the device tells which cores are near to it. Linux only."""
    if sys.platform != "linux":
        return
    allowed = sorted(os.sched_getaffinity(0))
    online = _cores(SYSFS / "devices/system/cpu/online") or allowed
    yield from _governor(allowed)
    yield from _few(allowed, online)
    yield from _unpinned(allowed, online, pci_address)


def _governor(allowed: list[int]) -> Iterator[Disturbance]:
    found = [_text(SYSFS / f"devices/system/cpu/cpu{core}/cpufreq/scaling_governor") for core in allowed]
    slow = [governor for governor in found if governor and governor != "performance"]
    if slow:
        yield Disturbance(
            f"The CPU governor is {' or '.join(sorted(set(slow)))} on {len(slow)} of {len(allowed)} cores.",
            "The host then launches kernels at a changing clock: launch overhead and the times of short kernels vary.",
            "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
        )


def _few(allowed: list[int], online: list[int]) -> Iterator[Disturbance]:
    quota = _quota()
    why = "Other threads then interrupt the one that launches kernels: times of short kernels vary."
    if quota is not None and quota < min(FEW_CORES, len(allowed)):
        yield Disturbance(
            f"A quota limits this process to {quota:g} cores.",
            "The system stops all threads when they have used it up, so a launch may wait for many milliseconds.",
            "docker update --cpus 0 CONTAINER",
        )
    elif len(allowed) < FEW_CORES:
        several = f"{len(allowed)} core{'s' * (len(allowed) != 1)}"
        if len(online) > len(allowed):
            command = f"taskset --cpu-list {_written(online[-FEW_CORES:])} kbench run CONFIG"
            yield Disturbance(f"kbench may run on {several} of {len(online)}.", why, command)
        else:
            yield Disturbance(f"This machine has {several}.", why, "ps -eo pid,pcpu,comm --sort=-pcpu | head")


def _unpinned(allowed: list[int], online: list[int], pci_address: str | None) -> Iterator[Disturbance]:
    if len(allowed) <= FEW_CORES or len(allowed) < len(online):
        return
    near = _cores(SYSFS / f"bus/pci/devices/{pci_address}/local_cpulist") if pci_address else []
    near = [core for core in near if core in allowed]
    several_nodes = 0 < len(near) < len(allowed)
    chosen = near if several_nodes else allowed[-FEW_CORES:]
    why = "The system may move the thread that launches kernels to another core: launch overhead varies."
    if several_nodes:
        why += " Cores of another NUMA node also reach the device later."
    yield Disturbance(
        f"kbench is not pinned: it may run on all {len(allowed)} cores.",
        why,
        f"taskset --cpu-list {_written(chosen)} kbench run CONFIG",
    )


def _quota() -> float | None:
    """The cores that this process may use on average; None if there is no limit. Each control group above its own may have one.
    See cgroup v2, `cpu.max`."""
    lines = (_text(OWN_GROUP) or "").splitlines()
    own = Path(next((line.removeprefix("0::") for line in lines if line.startswith("0::")), "/"))
    found = []
    for group in (own, *own.parents):
        limit, _, period = (_text(SYSFS / f"fs/cgroup{group}/cpu.max") or "").partition(" ")
        if limit.isdecimal() and period.isdecimal() and int(period):
            found.append(int(limit) / int(period))
    return min(found, default=None)


def _cores(path: Path) -> list[int]:
    """The cores of a list such as `0-3,8`; none if there is no such file."""
    found: list[int] = []
    for part in (_text(path) or "").split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found += range(int(first), int(last or first) + 1)
    return found


def _written(cores: list[int]) -> str:
    """`0-3,8` for 0, 1, 2, 3 and 8."""
    spans: list[list[int]] = []
    for core in cores:
        if spans and core == spans[-1][1] + 1:
            spans[-1][1] = core
        else:
            spans.append([core, core])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def _text(path: Path) -> str | None:
    try:
        return files.read_bytes(path, _MOST_BYTES).decode("utf-8", "replace").strip()
    except OSError:  # a virtual machine or a sandbox has not all of them
        return None
