"""One fault per line, beside a clean baseline: what the audit must find."""

import torch
import triton.testing

try:
    from a_library_that_nobody_has import fast_relu
except ImportError:
    fast_relu = None


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["N"],
        x_vals=[512, 1024],
        line_arg="provider",
        line_vals=[
            "clean",
            "also-clean",
            "more-bytes",
            "clone",
            "fallback",
            "other-output",
            "nothing",
            "random",
            "warm",
            "buffer",
        ],
        line_names=[
            "Clean",
            "Also clean",
            "More bytes",
            "Clone",
            "Fallback",
            "Other output",
            "Nothing",
            "Random",
            "Warm",
            "Buffer",
        ],
        ylabel="GB/s",
        plot_name="faults",
        args={},
    )
)
def bench(N, provider):
    x = torch.randn(64, N)
    buffer = torch.empty_like(x)
    moved = 2 * x.numel() * x.element_size()
    do_bench = triton.testing.do_bench
    fn = {
        "clean": lambda: torch.relu(x),
        "also-clean": lambda: torch.clamp(x, min=0),
        "more-bytes": lambda: torch.clamp_min(x, 0),
        "clone": lambda: x.clone().relu_(),
        "fallback": lambda: torch.relu(x) if fast_relu is None else fast_relu(x),
        "other-output": lambda: torch.abs(x),
        "nothing": lambda: torch.maximum(x, x.new_zeros(())) is None or None,
        "random": lambda: torch.relu(torch.randn(64, N)),
        "buffer": lambda: torch.mul(x, x > 0, out=buffer),
        "warm": lambda: torch.where(x > 0, x, 0.0),
    }[provider]
    if provider == "more-bytes":
        moved = 3 * x.numel() * x.element_size()
    if provider == "warm":
        do_bench = triton.testing.do_bench_cudagraph
    ms = do_bench(fn, rep=5)
    return moved * 1e-9 / (ms * 1e-3)


bench.run()
