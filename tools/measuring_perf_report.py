"""The sweep of the built-in config softmax, timed as people do by hand: with triton.testing.perf_report.

    python tools/measuring_perf_report.py         needs a CUDA device

It checks nothing, and times each provider once per row length, with do_bench's own warm-up (25 ms) and samples (100 ms). It
prints the wall time of the sweep, and that of the process with its imports. kbench with the same budget per provider:

    kbench run softmax --set measure.precision=null --set measure.rounds=1 --set measure.warmup_ms=25 \
        --set measure.rep_ms=100 --only triton,torch-native,cuda
"""

from __future__ import annotations

import sys
import tempfile
import time

START = time.perf_counter()

import torch  # noqa: E402
import triton.testing  # noqa: E402

import kbench  # noqa: E402
from kbench.results.case import Case  # noqa: E402

PROVIDERS = ["torch-native", "triton", "cuda"]
LENGTHS = list(range(256, 12672 + 1, 128))
ROWS = 4096


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["N"],
        x_vals=LENGTHS,
        line_arg="provider",
        line_vals=PROVIDERS,
        line_names=PROVIDERS,
        ylabel="GB/s",
        plot_name="softmax",
        args={"M": ROWS},
    )
)
def sweep(M: int, N: int, provider: str) -> tuple[float, float, float]:
    x = torch.randn(M, N, device="cuda")
    softmax = kbench.operator("softmax").providers[provider].bind(Case("softmax", {"M": M, "N": N}, "float32"), {})
    ms, low_ms, high_ms = triton.testing.do_bench(lambda: softmax(x), quantiles=[0.5, 0.2, 0.8])
    moved = 2 * x.numel() * x.element_size()
    return moved / ms * 1e-6, moved / high_ms * 1e-6, moved / low_ms * 1e-6


def main() -> None:
    for provider in PROVIDERS:  # compile outside of the wall time
        for length in LENGTHS:
            case = Case("softmax", {"M": ROWS, "N": length}, "float32")
            kbench.operator("softmax").providers[provider].bind(case, {})(torch.randn(ROWS, length, device="cuda"))
    torch.cuda.synchronize()
    compiled = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        sweep.run(print_data=True, save_path=folder)
    end = time.perf_counter()
    print(f"sweep: {end - compiled:.1f} s; imports and compiling: {compiled - START:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
