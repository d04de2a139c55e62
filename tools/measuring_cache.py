"""Makes the table "What is left in the cache" of measuring.md: what one call of torch.compile does to the next readings.

    python tools/measuring_cache.py > table.md        needs a CUDA device, and quack-kernels for its column

do_bench times every provider on the same input, after thousands of flushes and after one call of torch.compile's
softmax. It does so with kbench's reset of what kernels asked the cache to keep, and without it.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

import torch

import kbench
from kbench.measure.machine.device import Device
from kbench.measure.timing.do_bench import BenchTimer
from kbench.results.case import Case

SHAPES = ((32768, 2048), (4096, 16384), (2048, 32768))
PROVIDERS = ("cuda", "triton", "quack")
FLUSHES = 5000
ROUNDS = 3


class Keeping(Device):
    """A device whose cache keeps what kernels asked it to keep."""

    def forget(self) -> None:
        return None


def flush() -> None:
    cache = torch.empty(2**26, dtype=torch.int32, device="cuda")
    for _ in range(FLUSHES):
        cache.zero_()


def read_us(device: Device, fn: Callable[..., Any], x: torch.Tensor, first: Callable[[], Any]) -> float:
    """The median of some rounds' medians, each after `first`."""
    sample = BenchTimer(device, "cold").ready([lambda: fn(x)], 0.05)
    medians = []
    for _ in range(ROUNDS):
        first()
        torch.cuda.synchronize()
        medians.append(median(sample(5, 15)))
    return median(medians) * 1e3


def main() -> None:
    print("| M x N | | `copy_` | CUDA | Triton | QuACK |\n|---|---|---|---|---|---|")
    softmax = kbench.operator("softmax")
    for M, N in SHAPES:
        x = torch.randn(M, N, device="cuda").bfloat16()
        out = torch.empty_like(x)
        case = Case("softmax", {"M": M, "N": N}, "bfloat16")
        compiled = softmax.providers["torch-compile"].bind(case, {})
        functions = [lambda x, out=out: out.copy_(x)] + [softmax.providers[name].bind(case, {}) for name in PROVIDERS]
        for fn in (compiled, *functions):
            fn(x)
        for how, device in (("", Keeping()), ("with kbench's reset, ", Device())):
            for when, first in (("after flushes", flush), ("after torch.compile", lambda x=x, fn=compiled: fn(x))):
                cells = [f"{read_us(device, fn, x, first):.1f}" for fn in functions]
                print(f"| {M} x {N} | {how}{when} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
