"""Chooses its sizes by times that it reads: before the plot, and in a loop inside of it."""

import torch
import triton.testing

SMALL = torch.randn(100)
once = triton.testing.do_bench(lambda: SMALL + 1)
assert 1e-5 < once < 100, once  # a real time, not a made-up one
SIZES = [1000] if once > 1e-4 else [2000]


@triton.testing.perf_report(
    triton.testing.Benchmark(["N"], SIZES, "provider", ["add"], ["add"], "adaptive", {}, ylabel="ms")
)
def bench(N, provider):
    count = N
    while True:
        x = torch.randn(count)
        ms = triton.testing.do_bench(lambda: x + x, warmup=1, rep=1)
        if ms > 5e-4:
            return ms
        count *= 2


bench.run()
