"""A Triton kernel beside torch, a slow host, a silent fallback, a graph, and lines that return their last output
or compute on the host."""

import torch
import triton
import triton.language as tl
import triton.testing


@triton.autotune(configs=[triton.Config({}, num_warps=warps) for warps in (4, 8)], key=["N"])
@triton.jit
def softmax_rows(out, x, N, BLOCK: tl.constexpr):
    start, columns = tl.program_id(0) * N, tl.arange(0, BLOCK)
    row = tl.load(x + start + columns, mask=columns < N, other=-float("inf"))
    weights = tl.exp(row - tl.max(row, 0))
    tl.store(out + start + columns, weights / tl.sum(weights, 0), mask=columns < N)


def fused(x):
    out = torch.empty_like(x)
    softmax_rows[(len(x),)](out, x, x.shape[1], triton.next_power_of_2(x.shape[1]))
    return out


def slowly(x):
    for _ in range(100_000):
        pass
    return torch.softmax(x, dim=1, dtype=torch.float64)


def returns_last(x, outputs={}):  # noqa: B006  it keeps them
    return outputs[x.shape] if x.shape in outputs else outputs.setdefault(x.shape, torch.softmax(x, 1))


def replays(x, graphs={}):  # noqa: B006
    if x.data_ptr() not in graphs:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = torch.softmax(x, 1)
        graphs[x.data_ptr()] = graph, out
    graphs[x.data_ptr()][0].replay()
    return graphs[x.data_ptr()][1]


check = torch.randn(64, 500, device="cuda")
assert torch.allclose(fused(check), torch.softmax(check, 1), atol=1e-6)  # tunes the kernel with the real do_bench

on_host = torch.randn(64, 500)
lines = {
    "torch": lambda x: torch.softmax(x, 1),
    "triton": fused,
    "slow-host": slowly,
    "fallback": lambda x: x.softmax(-1),
    "last": returns_last,
    "graph": replays,
    "host": lambda x: torch.softmax(on_host, 1),
}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        ["N"], [1000, 4000], "provider", list(lines), list(lines), "rows", {"M": 2048}, ylabel="GB/s"
    )
)
def bench(M, N, provider):
    x = torch.randn(M, N, device="cuda")
    return 8 * x.numel() / triton.testing.do_bench(lambda: lines[provider](x)) * 1e-6


bench.run()
