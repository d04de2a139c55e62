"""Compares the implementations first, then times them with do_bench_cudagraph where there is a device, in us; no quantiles."""

import itertools

import torch
import triton.testing


def silu_and_mul(x, y):
    return torch.nn.functional.silu(x) * y


def by_hand(x, y):
    return x / (1 + torch.exp(-x)) * y


def calculate_diff(batch, size):
    x, y = torch.randn(batch, size), torch.randn(batch, size)
    assert torch.allclose(silu_and_mul(x, y), by_hand(x, y), atol=1e-5)
    print("both implementations match")


timer = triton.testing.do_bench_cudagraph if torch.cuda.is_available() else triton.testing.do_bench
configs = list(itertools.product([1, 4], [256]))


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["batch", "size"],
        x_vals=[list(each) for each in configs],
        line_arg="provider",
        line_vals=["torch", "by-hand"],
        line_names=["Torch", "By hand"],
        styles=[("blue", "-"), ("green", "-")],
        ylabel="us",
        plot_name="silu-and-mul-performance",
        args={},
    )
)
def benchmark(batch, size, provider):
    x, y = torch.randn(batch, size), torch.randn(batch, size)
    fn = silu_and_mul if provider == "torch" else by_hand
    return 1000 * timer(lambda: fn(x, y), rep=5)


if __name__ == "__main__":
    calculate_diff(4, 256)
    benchmark.run(print_data=True, show_plots=False, save_path="./configs/benchmark_ops/")
