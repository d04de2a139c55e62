"""A line that is a ratio of two times, in one call of the function."""

import torch
import triton
import triton.testing


@triton.testing.perf_report(
    triton.testing.Benchmark(["n"], [1000], "line", ["speed-up"], ["speed-up"], "sort-speed-up", {}, ylabel="x")
)
def bench(n, line):
    x = torch.randn(n)
    whole = triton.testing.do_bench(lambda: torch.sort(x)[0], return_mode="median")
    top = triton.testing.do_bench(lambda: torch.topk(x, 10)[0], return_mode="min")
    return whole / top


bench.run()
