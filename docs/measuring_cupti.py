"""Makes the first table of measuring.md: kbench's timers against the kernel time that CUPTI reports.

    python docs/measuring_cupti.py > table.md        needs a CUDA device, and liger-kernel for its rows

For each case the kernel time is the median over 200 calls of the sum of the durations of the device activities of a call,
as torch.profiler (CUPTI) gives them, in the regime in which kbench times: the last-level cache flushed before each call, a
spin kernel after the flush. It is set against do_bench as kbench runs it, less an empty kernel timed the same way, and
against the graph timer. All three measure the same function on the same buffers in the same process: where the buffers lie in
memory alone can move a kernel by several per cent. (The graph rotates over more buffers, the first of which is that one.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
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
ROUNDS = 5
CALLS = 200
SPIN_CYCLES = 200_000  # about 0.1 ms


def timed_us(timer: Timer, fn: Callable[..., Any], buffers: Sequence[tuple[Any, ...]], host_ms: float | None) -> float:
    """The median of the rounds' medians, as a row of kbench has it."""
    sample = timer.ready(fn, buffers, host_ms)
    return median(median(sample()) for _ in range(ROUNDS)) * 1e3


def cupti_us(fn: Callable[[], Any]) -> float:
    """Median device time of one call in a cold cache. Flush and spin, the first two activities, are left out."""
    cache = torch.empty(256 * 2**20, dtype=torch.int8, device="cuda")
    for _ in range(50):
        fn()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(CALLS):
            cache.zero_()
            torch.cuda._sleep(SPIN_CYCLES)
            fn()
        torch.cuda.synchronize()
    events = [e for e in profile.profiler.kineto_results.events() if e.device_type() == torch.autograd.DeviceType.CUDA]
    events.sort(key=lambda event: event.start_ns())
    each, rest = divmod(len(events), CALLS)
    if rest or each < 3:
        raise RuntimeError(f"{len(events)} device activities for {CALLS} calls: the profiler has lost some")
    calls = [events[i * each + 2 : (i + 1) * each] for i in range(CALLS)]
    return median(sum(event.duration_ns() for event in call) for call in calls) * 1e-3


def inputs_only(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` for buffers that are a pair of input and target, as the copy needs them."""
    return lambda x, target: fn(x)


def main() -> None:
    softmax = kbench.operator("softmax")
    device = Device()
    bench, graph = (kind(device, "cold", warmup_ms=10, rep_ms=30) for kind in (BenchTimer, GraphTimer))
    print("| dtype | N | provider | CUPTI us | do_bench us | less empty | off | graph us | off |")
    print("|---|---|---|---|---|---|---|---|---|")
    for dtype in DTYPES:
        for n in SIZES:
            case = Case("softmax", {"M": 4096, "N": n}, dtype)
            x = torch.randn(4096, n, device="cuda", dtype=getattr(torch, dtype))
            sets = graph.sets(softmax.bytes(case))
            rotated = [(x, torch.empty_like(x)), *((x.clone(), torch.empty_like(x)) for _ in range(sets - 1))]
            calls = {name: inputs_only(softmax.providers[name].bind(case, {})) for name in PROVIDERS}
            calls["copy"] = lambda x, target: target.copy_(x)
            empty = timed_us(bench, device.empty_call, [()], None)
            for name, fn in calls.items():
                call = partial(fn, *rotated[0])
                plain = timed_us(bench, fn, rotated, launch_ms(call, device))
                less = plain - empty
                truth = cupti_us(call)
                replay = timed_us(graph, fn, rotated, None)
                print(
                    f"| {dtype} | {n} | {name} | {truth:.2f} | {plain:.2f} | {less:.2f} | {less / truth - 1:+.1%} "
                    f"| {replay:.2f} | {replay - truth:+.2f} us, {replay / truth - 1:+.1%} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
