"""Makes the first table of measuring.md: kbench's timers against the kernel time that CUPTI reports.

    python tools/measuring_cupti.py > table.md        needs a CUDA device, and liger-kernel for its rows

The kernel time is the sum of the durations of the device activities of a call, as torch.profiler (CUPTI) reports
them. It is taken of the very calls that do_bench times when kbench runs it: the last-level cache is flushed before
each call, and a spin kernel follows the flush. What the timer adds to a kernel is measured as for kbench's `empty`
control: the time of an empty kernel, less half of what a second one adds. The graph timer is compared in the same way
with the durations of the kernels of the very replays that it times. Further columns have the readings of both timers
without the profiler, which lengthens some kernels.

All methods time the same function on the same buffers in one process, because the place of the buffers in memory
alone can change the time of a kernel by several per cent. (The graph rotates over more buffers, and its first is the
same.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Any

import torch

import kbench
from kbench.measure.machine.device import Device
from kbench.measure.timing.do_bench import BenchTimer
from kbench.measure.timing.graph import MIN_CALLS, GraphTimer
from kbench.measure.timing.timer import Sample, Timer, measure_launch_ms
from kbench.results.case import Case

PROVIDERS = ("torch-native", "triton-row", "torch-compile", "liger")
SIZES = (256, 512, 1024, 2048, 4096, 8192, 16384)
DTYPES = ("float32", "bfloat16")
ROUNDS = 3
BUDGET_MS = (5.0, 20.0)
"""How long a round runs a provider untimed and timed."""


def timed_us(
    timer: Timer, fn: Callable[..., Any], buffers: Sequence[tuple[Any, ...]], launch_ms: float | None
) -> float:
    """The median of the rounds' medians, as a row of kbench has it."""
    sample = timer.ready([partial(fn, *each) for each in buffers], launch_ms)
    return median(median(sample(*BUDGET_MS)) for _ in range(ROUNDS)) * 1e3


def profiled(sample: Sample) -> tuple[list[float], list[Any], list[int]]:
    """A round's samples, the device activities meanwhile in their order, and which of them are the samples' spins."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        timed = sample(*BUDGET_MS)
    events = [e for e in profile.profiler.kineto_results.events() if e.device_type() == torch.autograd.DeviceType.CUDA]
    events.sort(key=lambda event: event.start_ns())
    return timed, events, [i for i, event in enumerate(events) if "spin" in event.name()][-len(timed) :]


def both_us(
    timer: Timer, fn: Callable[..., Any], buffers: Sequence[tuple[Any, ...]], launch_ms: float
) -> tuple[float, float]:
    """The medians over a round's calls of the time between do_bench's events, and of the time of the kernels between them."""
    sample = timer.ready([partial(fn, *each) for each in buffers], launch_ms)
    timed, events, spins = profiled(sample)
    each = spins[-1] - spins[-2]  # a flush, a spin, and what the call launches
    if (
        len(spins) != len(timed)
        or any(b - a != each for a, b in pairwise(spins))
        or len(events) != spins[-1] + each - 1
    ):
        raise RuntimeError(f"{len(events)} device activities for {len(timed)} calls: the profiler has lost some")
    calls = [sum(event.duration_ns() for event in events[spin + 1 : spin + each - 1]) for spin in spins]
    return median(timed) * 1e3, median(calls) * 1e-3


def replayed_us(timer: GraphTimer, fn: Callable[..., Any], buffers: Sequence[tuple[Any, ...]]) -> tuple[float, float]:
    """The medians over a round's replays of a graph of the time of a call, and of the time of its kernels."""
    sample = timer.ready([partial(fn, *each) for each in buffers], None)
    timed, events, spins = profiled(sample)
    replays = [events[a + 1 : b] for a, b in pairwise([*spins, len(events)])]
    calls = max(len(buffers), MIN_CALLS)
    if len(spins) != len(timed) or any(not each or len(each) % calls for each in replays):
        raise RuntimeError(
            f"{[len(each) for each in replays]} device activities for {calls} calls: the profiler has lost some"
        )
    kernels = median(sum(event.duration_ns() for event in each) for each in replays)
    return median(timed) * 1e3, kernels * 1e-3 / calls


def inputs_only(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` for buffers that are a pair of input and target, as the copy needs them."""
    return lambda x, target: fn(x)


def main() -> None:
    softmax = kbench.operator("softmax")
    device = Device()
    bench, graph = (kind(device, "cold") for kind in (BenchTimer, GraphTimer))
    print(
        "| dtype | N | provider | CUPTI us | do_bench, the same calls | less `empty` | off | without profiler "
        "| CUPTI us in the graph | graph, the same replays | off | without profiler |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for dtype in DTYPES:
        for n in SIZES:
            case = Case("softmax", {"M": 4096, "N": n}, dtype)
            x = torch.randn(4096, n, device="cuda", dtype=getattr(torch, dtype))
            sets = graph.sets(softmax.call_bytes(case))
            rotated = [(x, torch.empty_like(x)), *((x.clone(), torch.empty_like(x)) for _ in range(sets - 1))]
            calls = {name: inputs_only(softmax.providers[name].bind(case, {})) for name in PROVIDERS}
            calls["copy"] = lambda x, target: target.copy_(x)
            one, own = both_us(bench, device.empty_call, [()], 0.0)
            two, _ = both_us(bench, twice(device.empty_call), [()], 0.0)
            empty = one - (two - one) / 2
            print(
                f"| {dtype} | {n} | an empty kernel | {own:.2f} | {one:.2f} | {one - empty:.2f} | | | | | | |",
                flush=True,
            )
            for name, fn in calls.items():
                launch_ms = measure_launch_ms(partial(fn, *rotated[0]), device)
                plain = timed_us(bench, fn, rotated, launch_ms)
                same_calls, truth = both_us(bench, fn, rotated, launch_ms)
                plain_graph = timed_us(graph, fn, rotated, None)
                replay, in_graph = replayed_us(graph, fn, rotated)
                less = same_calls - empty
                print(
                    f"| {dtype} | {n} | {name} | {truth:.2f} | {same_calls:.2f} | {less:.2f} | {less / truth - 1:+.1%} "
                    f"| {plain:.2f} | {in_graph:.2f} | {replay:.2f} "
                    f"| {replay - in_graph:+.2f} us, {replay / in_graph - 1:+.1%} | {plain_graph:.2f} |",
                    flush=True,
                )


def twice(call: Callable[[], None]) -> Callable[[], None]:
    def both() -> None:
        call()
        call()

    return both


if __name__ == "__main__":
    main()
