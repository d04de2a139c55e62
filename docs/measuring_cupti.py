"""Makes the first table of measuring.md: kbench's timers against the kernel time that CUPTI reports.

    python docs/measuring_cupti.py > table.md        needs a CUDA device, and liger-kernel for its rows

The kernel time is the sum of the durations of the device activities of a call, as torch.profiler (CUPTI) gives them. It is
taken of the very calls that do_bench times, as kbench runs it: the last-level cache flushed before each call, a spin kernel
after the flush. What those readings hold beside the kernel is measured in the same way: the reading of the empty kernel, less
the kernel time that CUPTI gives it. Beside them stand do_bench without the profiler, and the graph timer.
All measure the same function on the same buffers in the same process: where the buffers lie in memory alone can move a
kernel by several per cent. (The graph rotates over more buffers, the first of which is that one.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Any

import torch

import kbench
from kbench.measure.device import Device
from kbench.measure.graph import GraphTimer
from kbench.measure.timer import BenchTimer, Timer, launch_ms
from kbench.results import Case

PROVIDERS = ("torch-native", "triton-row", "torch-compile", "liger")
SIZES = (256, 512, 1024, 2048, 4096, 8192, 16384)
DTYPES = ("float32", "bfloat16")
ROUNDS = 3


def timed_us(timer: Timer, fn: Callable[..., Any], buffers: Sequence[tuple[Any, ...]], host_ms: float | None) -> float:
    """The median of the rounds' medians, as a row of kbench has it."""
    sample = timer.ready(fn, buffers, host_ms)
    return median(median(sample()) for _ in range(ROUNDS)) * 1e3


def both_us(
    timer: Timer, fn: Callable[..., Any], buffers: Sequence[tuple[Any, ...]], host_ms: float
) -> tuple[float, float]:
    """The medians over a round's calls of the time between do_bench's events, and of the time of the kernels between them."""
    sample = timer.ready(fn, buffers, host_ms)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        timed = sample()
    events = [e for e in profile.profiler.kineto_results.events() if e.device_type() == torch.autograd.DeviceType.CUDA]
    events.sort(key=lambda event: event.start_ns())
    spins = [i for i, event in enumerate(events) if "spin" in event.name()][-len(timed) :]
    each = spins[-1] - spins[-2]  # a flush, a spin, and what the call launches
    if (
        len(spins) != len(timed)
        or any(b - a != each for a, b in pairwise(spins))
        or len(events) != spins[-1] + each - 1
    ):
        raise RuntimeError(f"{len(events)} device activities for {len(timed)} calls: the profiler has lost some")
    calls = [sum(event.duration_ns() for event in events[spin + 1 : spin + each - 1]) for spin in spins]
    return median(timed) * 1e3, median(calls) * 1e-3


def inputs_only(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` for buffers that are a pair of input and target, as the copy needs them."""
    return lambda x, target: fn(x)


def main() -> None:
    softmax = kbench.operator("softmax")
    device = Device()
    bench, graph = (kind(device, "cold", warmup_ms=5, rep_ms=20) for kind in (BenchTimer, GraphTimer))
    print(
        "| dtype | N | provider | CUPTI us | do_bench, the same calls | less overhead | off | less empty | off "
        "| without profiler | graph us | off |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for dtype in DTYPES:
        for n in SIZES:
            case = Case("softmax", {"M": 4096, "N": n}, dtype)
            x = torch.randn(4096, n, device="cuda", dtype=getattr(torch, dtype))
            sets = graph.sets(softmax.bytes(case))
            rotated = [(x, torch.empty_like(x)), *((x.clone(), torch.empty_like(x)) for _ in range(sets - 1))]
            calls = {name: inputs_only(softmax.providers[name].bind(case, {})) for name in PROVIDERS}
            calls["copy"] = lambda x, target: target.copy_(x)
            empty, own = both_us(bench, device.empty_call, [()], 0.0)
            print(f"| {dtype} | {n} | empty | {own:.2f} | {empty:.2f} | | | | | | | |", flush=True)
            for name, fn in calls.items():
                host_ms = launch_ms(partial(fn, *rotated[0]), device)
                plain = timed_us(bench, fn, rotated, host_ms)
                same_calls, truth = both_us(bench, fn, rotated, host_ms)
                replay = timed_us(graph, fn, rotated, None)
                less, too_little = same_calls - (empty - own), same_calls - empty
                print(
                    f"| {dtype} | {n} | {name} | {truth:.2f} | {same_calls:.2f} | {less:.2f} | {less / truth - 1:+.1%} "
                    f"| {too_little:.2f} | {too_little / truth - 1:+.1%} | {plain:.2f} "
                    f"| {replay:.2f} | {replay - truth:+.2f} us, {replay / truth - 1:+.1%} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
