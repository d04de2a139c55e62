"""The ceiling: the bandwidth of a large copy, measured once per session."""

from __future__ import annotations

from statistics import median

import torch

from kbench.measure.machine.device import Device
from kbench.measure.timing.do_bench import BenchTimer

COPY_CACHE_FILLS = 20
"""The copy is this many times as large as the last-level cache, so that the cache cannot serve it."""

LARGEST_BYTES = {"cpu": 2**28}
"""The largest copy by device type, in bytes of both tensors together; 4 GiB for other types."""


def ceiling_gbps(device: Device) -> float | None:
    """GB/s of a large copy on the device, counting reads and writes. None if there is too little memory for it."""
    bound = LARGEST_BYTES.get(device.type, 2**32)
    total = min(COPY_CACHE_FILLS * (device.cache_bytes or 2**26), bound, (device.free_bytes() or bound) // 4)
    try:
        source = torch.randn(total // 8, device=device.torch_device)
        target = torch.empty_like(source)
    except RuntimeError:
        return None  # too little free memory: rows then have no ceiling
    timer = BenchTimer(device, "cold", warmup_ms=20, rep_ms=100)
    samples = timer.ready([lambda: target.copy_(source)], None)()
    return 2 * source.numel() * source.element_size() / median(samples) * 1e-6
