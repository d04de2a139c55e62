"""What distorts timings on this machine, for `kbench doctor`: profilers, the host, and the NVIDIA device."""

from __future__ import annotations

import math
import os
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kbench.clocks import unlock_command
from kbench.nvml import Card


@dataclass(frozen=True)
class Disturbance:
    """Something that distorts timings.

    what     what is so on this machine, as a sentence
    why      what it does to a reading, as a sentence
    command  the command line that changes it, or shows more
    """

    what: str
    why: str
    command: str


# -- profilers, tracers and preloaded libraries, which the environment installs into every program

VARIABLES = {
    "CUDA_INJECTION64_PATH": "CUDA loads this library, usually a profiler, into every process; it adds time to each launch.",
    "NVTX_INJECTION64_PATH": "A tool receives every NVTX range of torch and of the providers, which takes time on the host.",
    "KINETO_USE_DAEMON": "A daemon may start torch's profiler in the worker at any moment; kernels then take longer.",
    "KINETO_CONFIG": "torch's profiler reads this file and may start by itself; kernels then take longer.",
    "TORCH_CUDA_SANITIZER": "torch checks every kernel for data races, which makes each launch much slower.",
    "CUDA_LAUNCH_BLOCKING": "Every launch waits for its kernel, so the host is never ahead and times include the launch.",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "Each allocation of a provider calls the driver and waits for the device.",
    "PYTHONTRACEMALLOC": "Python records every allocation, which makes each launch from Python slower.",
}
"""Variables that distort timings unless they are empty or 0, and what they do."""

PROFILERS = ("NSYS_", "NV_NSIGHT_", "NV_COMPUTE_PROFILER_", "NV_TPS_LAUNCH_TOKEN", "NCU_")
"""Beginnings of the names of variables that Nsight Systems and Nsight Compute set in the programs that they start."""

PRELOADED = "This library runs in every process and may replace its memory allocation or its calls of CUDA."


def profiler_disturbances() -> Iterator[Disturbance]:
    """What the environment variables of this process say."""
    for name, why in VARIABLES.items():
        if (value := os.environ.get(name, "")) not in ("", "0"):
            yield Disturbance(f"The variable {name} is set: {value}.", why, f"unset {name}")
    if names := sorted(name for name in os.environ if name.startswith(PROFILERS) and name not in VARIABLES):
        yield Disturbance(
            f"Variables of a profiler are set: {', '.join(names)}.",
            "kbench may be running under that profiler, which adds time to each launch and to some kernels.",
            f"unset {shlex.join(names)}",
        )
    for name in ("LD_PRELOAD", "LD_AUDIT"):
        if value := os.environ.get(name, ""):
            yield Disturbance(f"A library is preloaded: {name} is {value}.", PRELOADED, f"unset {name}")


# -- the host's CPU: its governor, and the cores on which kbench may run

SYSFS = Path("/sys")

QUOTA = Path("/sys/fs/cgroup/cpu.max")

FEW_CORES = 4
"""With fewer cores the thread that launches kernels shares its core: with kbench's parent process, the driver's threads, or
compilers."""


def host_disturbances() -> Iterator[Disturbance]:
    """What distorts timings on the host. Linux only."""
    if sys.platform != "linux":
        return
    allowed = sorted(os.sched_getaffinity(0))
    governors = [_text(SYSFS / f"devices/system/cpu/cpu{core}/cpufreq/scaling_governor") for core in allowed]
    slow = [governor for governor in governors if governor and governor != "performance"]
    if slow:
        yield Disturbance(
            f"The CPU governor is {' or '.join(sorted(set(slow)))} on {len(slow)} of {len(allowed)} cores.",
            "The host then launches kernels at a changing clock: launch overhead and the times of short kernels vary.",
            "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
        )
    # what the processes of this container may use on average: see cgroup v2, `cpu.max`
    limit, _, period = (_text(QUOTA) or "").partition(" ")
    quota = int(limit) / int(period) if limit.isdecimal() and period.isdecimal() else math.inf
    cores = min(len(allowed), quota)
    if cores < FEW_CORES:
        yield Disturbance(
            f"kbench may use {cores:g} of {os.cpu_count()} cores.",
            "Other threads then interrupt the one that launches kernels, or a quota stops it: times of short kernels vary.",
            f"taskset --cpu-list --pid $$; cat {QUOTA}",
        )


def _text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:  # a virtual machine or a sandbox has not all of them
        return None


# -- the device: its clocks and settings, and other programs on it


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
    if card.ecc() is False:
        yield Disturbance(
            "ECC is off.",
            "The bandwidth of some devices is higher without ECC than on most servers, where it is on.",
            f"sudo nvidia-smi -i {card.uuid} --ecc-config=1 && sudo reboot",
        )


def _clocks(card: Card) -> Iterator[Disturbance]:
    if card.limited_by_a_setting():
        yield Disturbance(
            f"The clock is limited to {card.sm_mhz()} MHz, probably by a lock: of another program, of a kbench run, or of one "
            "whose container was killed.",
            "Results are comparable only with those that were measured under the same setting.",
            unlock_command(card.uuid),
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
