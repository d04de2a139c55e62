"""What the memory of the device delivers: measured once per session, and in theory."""

from __future__ import annotations

from statistics import median

import torch

from kbench.measure.machine.device import Device
from kbench.measure.timing.do_bench import BenchTimer

COPY_CACHE_FILLS = 20
"""The copy is so many times the last-level cache: far beyond what it can serve."""

LARGEST_BYTES = {"cpu": 2**28}
"""A bound per device type, for both tensors of the copy together; 4 GiB elsewhere."""


def ceiling_gbps(device: Device) -> float | None:
    """GB/s, reads and writes counted, of a large device copy. None where memory for it is short."""
    bound = LARGEST_BYTES.get(device.type, 2**32)
    total = min(COPY_CACHE_FILLS * (device.cache_bytes or 2**26), bound, (device.free_bytes() or bound) // 4)
    try:
        source = torch.randn(total // 8, device=device.torch_device)
        target = torch.empty_like(source)
    except RuntimeError:
        return None  # too little memory is free: rows say so by having no ceiling
    timer = BenchTimer(device, "cold", warmup_ms=20, rep_ms=100)
    samples = timer.ready(lambda: target.copy_(source), [()], None)()
    return 2 * source.numel() * source.element_size() / median(samples) * 1e-6
