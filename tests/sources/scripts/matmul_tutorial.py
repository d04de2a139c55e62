"""Two plots of one function, with one value for M, N and K, and TFLOPS."""

import torch
import triton.testing

configs = [
    triton.testing.Benchmark(
        x_names=["M", "N", "K"],
        x_vals=[32],
        line_arg="provider",
        line_vals=["blas", "einsum"],
        line_names=["BLAS", "einsum"],
        ylabel="TFLOPS",
        plot_name="matmul-" + name,
        args={"dtype": dtype},
    )
    for name, dtype in (("fp32", torch.float32), ("fp64", torch.float64))
]


@triton.testing.perf_report(configs)
def benchmark(M, N, K, provider, dtype):
    a, b = torch.randn(M, K).to(dtype), torch.randn(K, N).to(dtype)
    quantiles = [0.5, 0.2, 0.8]
    if provider == "blas":
        ms, low, high = triton.testing.do_bench(lambda: torch.matmul(a, b), quantiles=quantiles)
    else:
        ms, low, high = triton.testing.do_bench(lambda: torch.einsum("mk,kn->mn", a, b), quantiles=quantiles)
    perf = lambda ms: 2 * M * N * K * 1e-12 / (ms * 1e-3)
    return perf(ms), perf(high), perf(low)


if __name__ == "__main__":
    benchmark.run(show_plots=True, print_data=True)
