"""The device under test: its properties, and the operations that measuring needs."""

from __future__ import annotations

import gc
import math
import os
import platform
import time
import traceback
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from kbench.kernels import cuda_driver
from kbench.measure.machine.interpreter import prepare_interpreter
from kbench.protocol import DeviceInfo
from kbench.text.exception_text import text_of

SPIN_CALIBRATION_CYCLES = 2_000_000
SPIN_WARMUP_S = 0.05
"""How long the device is busy before kbench measures a spin, which counts cycles. An idle device has a low clock."""

OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "ALLOC_FAILED")
"""What the text of a RuntimeError contains if memory ran out: on a host; in the driver, an extension or Triton; in cuBLAS."""

LEFT_SHARE = 0.02
"""If more than this share of the device's memory is in use when a case has ended, garbage may hold it."""

HOST_THREADS = 1
"""Threads of a provider when the host itself is measured. With more, a call waits for a core whenever another program runs.
While two busy loops ran, 116 of 135 rounds were disturbed with two threads, and 6 with one thread."""

VISIBLE = {
    "cuda": "HIP_VISIBLE_DEVICES" if torch.version.hip else "CUDA_VISIBLE_DEVICES",
    "npu": "ASCEND_RT_VISIBLE_DEVICES",
    "xpu": "ZE_AFFINITY_MASK",
}
"""The environment variable that sets which devices a process sees, by device type."""


class Device:
    """The current accelerator, or the host. Only `set_up` changes something in the process."""

    def __init__(self) -> None:
        current = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        self.type: str = current.type if current else "cpu"
        self.torch_device = (
            torch.device(self.type, torch.accelerator.current_device_index()) if current else torch.device("cpu")
        )

    def set_up(self) -> None:
        """Set the threads of a host, and switch Triton's interpreter on, before triton is imported."""
        if not self.accelerated:
            self.use_threads(HOST_THREADS)
            if find_spec("triton"):
                prepare_interpreter()

    def use_threads(self, threads: int | None) -> None:
        """Set the number of CPU threads, for torch and for libraries that are loaded later.

        None means the default: one thread if the host is measured, and torch's own number if a device is.
        """
        if threads is None and self.accelerated:
            return
        threads = threads or HOST_THREADS
        if threads != torch.get_num_threads():
            torch.set_num_threads(threads)
        os.environ.update(OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))

    @property
    def accelerated(self) -> bool:
        return self.type != "cpu"

    @property
    def module(self) -> Any:
        """torch's module for this type of device, such as torch.cuda."""
        return torch.get_device_module(self.type)

    @property
    def properties(self) -> Any:
        return self.module.get_device_properties(self.torch_device)

    @cached_property
    def name(self) -> str:
        if self.accelerated:
            return str(self.module.get_device_name(self.torch_device))
        return _host_name()

    @property
    def info(self) -> DeviceInfo:
        return (
            devices(self.type)[self.torch_device.index or 0] if self.accelerated else DeviceInfo(self.type, self.name)
        )

    @cached_property
    def cache_bytes(self) -> int | None:
        """Size of the last-level cache; None if the machine does not report it."""
        if self.accelerated:
            return getattr(self.properties, "L2_cache_size", None)
        return _host_cache_bytes()

    def synchronize(self) -> None:
        if self.accelerated:
            torch.accelerator.synchronize()

    def healthy(self) -> bool:
        """Whether the device still works. After an illegal access, every CUDA call reports that failure."""
        try:
            self.try_out()
        except RuntimeError:
            return False
        return True

    def try_out(self, memory_bytes: int = 0) -> None:
        """Use the device, and this much of its memory for a moment. Raises RuntimeError."""
        self.synchronize()
        torch.empty(memory_bytes, dtype=torch.uint8, device=self.torch_device)
        torch.zeros(1, device=self.torch_device).add_(1).item()

    def release(self) -> None:
        """Return cached memory to the driver, so that the next provider can allocate it."""
        if self.accelerated:
            self.module.empty_cache()

    def release_case(self) -> None:
        """Return the memory of a case that has ended to the driver. Objects that refer to each other keep their tensors until
        Python collects garbage. That takes 0.2 s and more, so it is done only if they hold much."""
        if self.accelerated:
            if self.module.memory_allocated() > LEFT_SHARE * (self.memory_bytes or math.inf):
                gc.collect()
            self.release()

    def free_bytes(self) -> int | None:
        """The free memory in bytes for the tensors of a case; None if the device does not report it."""
        if self.type == "cuda":
            return int(torch.cuda.mem_get_info(self.torch_device)[0])
        if self.accelerated:
            return None
        return int(_host_memory().available)

    @property
    def memory_bytes(self) -> int | None:
        """All of its memory in bytes, free or not; None if the device does not report it."""
        if self.accelerated:
            return getattr(self.properties, "total_memory", None)
        return int(_host_memory().total)

    @cached_property
    def empty_call(self) -> Callable[[], None]:
        """The least work that can be timed: an empty kernel on a device, nothing on a host or without Triton."""
        if not self.accelerated or not find_spec("triton"):
            return lambda: None
        from kbench.measure.machine import noop

        return partial(noop.launch, noop.noop)

    @cached_property
    def spin(self) -> Callable[[float], None] | None:
        """Enqueues a kernel that keeps the device busy for about so many ms; None without such a kernel."""
        if self.type != "cuda":
            return None
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        warm = time.monotonic() + SPIN_WARMUP_S
        while time.monotonic() < warm:
            torch.cuda._sleep(SPIN_CALIBRATION_CYCLES)
            torch.cuda.synchronize()
        torch.cuda._sleep(SPIN_CALIBRATION_CYCLES)
        start.record()
        torch.cuda._sleep(SPIN_CALIBRATION_CYCLES)
        end.record()
        torch.cuda.synchronize()
        cycles_per_ms = SPIN_CALIBRATION_CYCLES / start.elapsed_time(end)
        return lambda ms: torch.cuda._sleep(int(ms * cycles_per_ms))

    def keep_busy(self, ms: float) -> Callable[[], bool]:
        """Keep the device busy for about `ms`, if the device has a kernel for that. Later work waits in the queue.

        Returns a function that tells whether this is still so; it says yes where there is no such kernel.
        """
        if not self.spin:
            return lambda: True
        self.spin(ms)
        done = torch.cuda.Event()
        done.record()
        return lambda: not done.query()

    def drop_kept_lines(self) -> None:
        """Drop persisting lines of the L2 cache, which a flush leaves and which help the next provider."""
        if self.type == "cuda":
            self.synchronize()  # a kernel that still runs could make more lines persist
            cuda_driver.reset_persisting_cache()

    def poison(self, shape: Sequence[int], dtype: torch.dtype, again: bool = False) -> None:
        """Fill memory with `poison_value` that the next allocation of this size is likely to reuse. An element that a provider
        does not write is then not correct by chance. Does less if there is too little memory."""
        blocks = []
        try:
            for _ in range(2):
                blocks.append(torch.full(shape, poison_value(dtype, again), dtype=dtype, device=self.torch_device))
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
        del blocks


def devices(kind: str) -> list[DeviceInfo]:
    """The devices of a type that this process sees, in torch's order; none for the host.

    In each DeviceInfo, `variables` are the environment variables with which another process sees only this device. `index` is
    its number among all devices of the host, or torch's number if this process sees only some, chosen by UUID.
    """
    if kind == "cpu":
        return []
    module, variable = torch.get_device_module(kind), VISIBLE.get(kind, "")
    allowed = [entry.strip() for entry in os.environ.get(variable, "").split(",") if entry.strip()]
    infos = []
    for number in range(module.device_count()):
        handle = allowed[number] if number < len(allowed) else str(number)
        infos.append(
            DeviceInfo(
                type=kind,
                name=str(module.get_device_name(number)),
                index=int(handle) if handle.isdecimal() else number,
                uuid=_uuid(module.get_device_properties(number), handle),
                variables={variable: handle},
            )
        )
    return infos


def _uuid(properties: Any, handle: str) -> str:
    """The UUID as the vendor's tools write it. torch may report the card's for a MIG instance."""
    if handle.startswith("MIG-"):
        return handle
    uuid = str(getattr(properties, "uuid", ""))
    return f"GPU-{uuid}" if uuid and not torch.version.hip else uuid


def poison_value(dtype: torch.dtype, again: bool = False) -> float | int | bool:
    """A value that outputs do not hold by chance: NaN, or the largest integer, or True. Where there is no NaN, `again` gives
    another value, the smallest integer or False: an element that holds both in turn is not written."""
    if dtype.is_floating_point:
        return float("nan")
    if dtype == torch.bool:
        return not again
    return torch.iinfo(dtype).min if again else torch.iinfo(dtype).max


def out_of_memory(error: BaseException) -> bool:
    """Whether an exception reports that memory ran out, on the device or on the host."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(words in text_of(error) for words in OUT_OF_MEMORY)


def drop_locals(error: BaseException) -> None:
    """Let go of the locals of functions that this exception ended: it would keep their tensors."""
    left: list[BaseException | None] = [error]
    visited: set[int] = set()
    while left:
        fault = left.pop()
        if fault is not None and id(fault) not in visited:
            visited.add(id(fault))
            traceback.clear_frames(fault.__traceback__)
            left += [fault.__cause__, fault.__context__]


def _host_memory() -> Any:
    import psutil  # which takes a while, and a device needs none of it

    return psutil.virtual_memory()


def _host_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = (" ".join(line.split(":", 1)[1].split()) for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def _host_cache_bytes() -> int | None:
    sizes = [path.read_text().strip() for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    units = {"K": 1024, "M": 1024**2}
    return max((int(s[:-1]) * units[s[-1]] for s in sizes if s[-1:] in units), default=None)
