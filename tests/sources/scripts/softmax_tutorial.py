"""A benchmark in the style of Triton's tutorials: one plot over N, a line for each implementation, GB/s."""

import torch
import triton
import triton.testing

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def naive(x):
    shifted = x - x.max(dim=1, keepdim=True)[0]
    numerator = shifted.exp()
    return numerator / numerator.sum(dim=1, keepdim=True)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["N"],
        x_vals=[128 * i for i in range(2, 5)],
        line_arg="provider",
        line_vals=["torch", "naive"],
        line_names=["Torch", "Naive"],
        styles=[("green", "-"), ("blue", "-")],
        ylabel="GB/s",
        plot_name="softmax-rows",
        args={"M": 256},
    )
)
def benchmark(M, N, provider):
    x = torch.randn(M, N, device=DEVICE, dtype=torch.float32)
    quantiles = [0.5, 0.2, 0.8]
    if provider == "torch":
        ms, low, high = triton.testing.do_bench(lambda: torch.softmax(x, dim=-1), quantiles=quantiles)
    if provider == "naive":
        ms, low, high = triton.testing.do_bench(lambda: naive(x), quantiles=quantiles)

    def gbps(ms):
        return 2 * x.numel() * x.element_size() * 1e-9 / (ms * 1e-3)

    return gbps(ms), gbps(high), gbps(low)


benchmark.run(show_plots=True, print_data=True)
