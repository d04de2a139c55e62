"""Compares `timer: cupti` with `timer: do_bench`: a table of softmax rows of 10 us and more, and how many agree within 5 %.

    python tools/measuring_cupti_timer.py        needs an NVIDIA device

Both timers time the same function on the same buffers, as in a run: cold cache, median of the medians of the rounds. What
do_bench adds (the control `empty`) is taken off its readings. A profiler lengthens some kernels, so do_bench reads each
row twice: as in a run, and while a profiler records.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import torch

import kbench
from kbench.measure.machine.device import Device
from kbench.measure.timing.cupti import CuptiTimer
from kbench.measure.timing.device_activities import record_activities
from kbench.measure.timing.do_bench import BenchTimer
from kbench.measure.timing.timer import Sample, measure_launch_ms
from kbench.results.case import Case

PROVIDERS = ("torch-native", "torch-eager", "triton-row", "triton")
ROWS = 4096
LENGTHS = {"float32": (1536, 2048, 4096, 8192, 16384), "bfloat16": (3072, 4096, 8192, 16384)}
ROUNDS = 3
BUDGET_MS = (5.0, 20.0)
"""How long a round runs a provider untimed and timed."""

LEAST_US, AGREE = 10.0, 0.05


def read_us(sample: Sample) -> float:
    return median(median(sample(*BUDGET_MS)) for _ in range(ROUNDS)) * 1e3


def under_profiler(sample: Sample) -> Sample:
    """The same samples, taken while a profiler records."""

    def profiled(warmup_ms: float, rep_ms: float) -> list[float]:
        taken: list[float] = []
        record_activities(lambda: taken.extend(sample(warmup_ms, rep_ms)))
        return taken

    return profiled


def calls_of(case: Case) -> dict[str, Callable[[], Any]]:
    softmax = kbench.operator("softmax")
    x = torch.randn(ROWS, case.axes["N"], device="cuda", dtype=getattr(torch, case.dtype))
    target = torch.empty_like(x)
    calls: dict[str, Callable[[], Any]] = {
        name: partial(softmax.providers[name].bind(case, {}), x) for name in PROVIDERS
    }
    return {**calls, "copy": lambda: target.copy_(x)}


def main() -> None:
    device = Device()
    bench, cupti = BenchTimer(device, "cold"), CuptiTimer(device, "cold")
    empty_us = read_us(bench.empty())
    profiled_empty_us = read_us(under_profiler(bench.empty()))
    print(
        f"{device.name}, torch {torch.__version__}; empty {empty_us:.2f} us, under a profiler {profiled_empty_us:.2f} us; "
        f"an empty kernel takes {read_us(cupti.empty()):.2f} us by CUPTI\n"
    )
    print("| dtype | N | provider | cupti us | do_bench less `empty` | off | the same under a profiler | off |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    apart: list[tuple[float, float]] = []
    try:
        for case in (Case("softmax", {"M": ROWS, "N": n}, dtype) for dtype, some in LENGTHS.items() for n in some):
            for name, call in calls_of(case).items():
                call()
                launch_ms = measure_launch_ms(call, device)
                plain = bench.ready([call], launch_ms)
                own_us = read_us(plain) - empty_us
                truth_us = read_us(cupti.ready([call], launch_ms))
                profiled_us = read_us(under_profiler(plain)) - profiled_empty_us
                off = own_us / truth_us - 1, profiled_us / truth_us - 1
                if truth_us >= LEAST_US:
                    apart.append(off)
                print(
                    f"| {case.dtype} | {case.axes['N']} | {name} | {truth_us:.2f} | {own_us:.2f} | {off[0]:+.1%} "
                    f"| {profiled_us:.2f} | {off[1]:+.1%} |",
                    flush=True,
                )
    finally:  # also if somebody ends it early
        for number, what in enumerate(("do_bench less empty", "do_bench less empty, under a profiler")):
            found = [abs(each[number]) for each in apart]
            agree = sum(off <= AGREE for off in found)
            print(
                f"{what}: {agree} of {len(found)} rows from {LEAST_US:.0f} us on are within {AGREE:.0%} of cupti; the largest "
                f"difference is {max(found, default=0.0):.1%}"
            )


if __name__ == "__main__":
    main()
