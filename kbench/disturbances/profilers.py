"""Profilers, tracers and preloaded libraries, which the environment of this process installs into every program."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from kbench import files
from kbench.disturbances.disturbance import Disturbance

VARIABLES = {
    "CUDA_INJECTION64_PATH": "CUDA loads this library, usually a profiler, into every process; it adds time to each launch.",
    "NVTX_INJECTION64_PATH": "A tool receives every NVTX range of torch and of the providers, which takes time on the host.",
    "KINETO_USE_DAEMON": "A daemon may start torch's profiler in the worker at any moment; kernels then take longer.",
    "KINETO_CONFIG": "torch's profiler reads this file and may start by itself; kernels then take longer.",
    "TORCH_CUDA_SANITIZER": "torch checks every kernel for data races, which makes each launch much slower.",
    "CUDA_LAUNCH_BLOCKING": "Every launch waits for its kernel, so the host is never ahead and times include the launch.",
    "HIP_LAUNCH_BLOCKING": "Every launch waits for its kernel, so the host is never ahead and times include the launch.",
    "AMD_SERIALIZE_KERNEL": "Kernels wait for each other, so times include the launch.",
    "HSA_TOOLS_LIB": "ROCm loads this library, usually a profiler, into every process; it adds time to each launch.",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "Each allocation of a provider calls the driver and waits for the device.",
    "PYTHONTRACEMALLOC": "Python records every allocation, which makes each launch from Python slower.",
}
"""Variables that distort timings unless they are empty or 0, and what they do."""

PROFILERS = ("NSYS_", "NV_NSIGHT_", "NV_COMPUTE_PROFILER_", "NV_TPS_LAUNCH_TOKEN", "NCU_", "ROCPROF")
"""Beginnings of the names of variables that Nsight Systems, Nsight Compute and rocprof set in the programs that they start."""

PRELOADED = "This library runs in every process and may replace its memory allocation or its calls of CUDA."

PRELOAD_FILE = Path("/etc/ld.so.preload")
_MOST_BYTES = 4096
"""How much of PRELOAD_FILE is read. It holds a few paths."""


def profiler_disturbances() -> Iterator[Disturbance]:
    """What the environment variables of this process and the system's list of preloaded libraries say."""
    for name, why in VARIABLES.items():
        if (value := os.environ.get(name, "")) not in ("", "0"):
            yield Disturbance(f"The variable {name} is set: {value}.", why, f"unset {name}")
    if found := sorted(name for name in os.environ if name.startswith(PROFILERS) and name not in VARIABLES):
        yield Disturbance(
            f"Variables of a profiler are set: {', '.join(found)}.",
            "kbench may be running under that profiler, which adds time to each launch and to some kernels.",
            f"unset {shlex.join(found)}",
        )
    for name in ("LD_PRELOAD", "LD_AUDIT"):
        if value := os.environ.get(name, ""):
            yield Disturbance(f"A library is preloaded: {name} is {value}.", PRELOADED, f"unset {name}")
    try:
        listed = files.read_bytes(PRELOAD_FILE, _MOST_BYTES).decode("utf-8", "replace").split()
    except OSError:  # most machines have no such file
        return
    if listed:
        yield Disturbance(
            f"A library is preloaded: {PRELOAD_FILE} lists {' '.join(listed)}.",
            PRELOADED,
            f"sudo $EDITOR {PRELOAD_FILE}",
        )
