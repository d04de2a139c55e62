"""Marks that are made in main() behind argparse, and run by a loop of the script's own. Rates are rounded, in a dict."""

import argparse

import torch
from triton.testing import Benchmark, do_bench, perf_report


def cases():
    return [(64, n) for n in (128, 192)]


def run(mark):
    rows = []
    bench = mark.benchmarks
    for x in bench.x_vals:
        for line in bench.line_vals:
            kwargs = dict(zip(bench.x_names, x)) | bench.args | {bench.line_arg: line}
            rows.append(mark.fn(**kwargs))
            assert isinstance(rows[-1], dict)
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], required=True)
    parser.add_argument("--backward", action="store_true")
    args = parser.parse_args()
    dtype = getattr(torch, args.dtype)

    @perf_report(
        Benchmark(["M", "N"], cases(), "provider", ["eager", "fused"], ["eager", "fused"], "rmsnorm", {"dtype": dtype})
    )
    def bench(M, N, provider, dtype):
        if (N, provider) == (192, "fused") and args.backward:
            raise RuntimeError("no backward pass for 192")
        x, weight = torch.randn(M, N).to(dtype), torch.ones(N)
        if provider == "eager":
            fn = lambda: (x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6) * weight).to(dtype)
            moved = 2 * x.numel() * x.element_size() + 4 * N
        else:
            fn = lambda: torch.nn.functional.rms_norm(x.float(), (N,), weight, 1e-6).to(dtype)
            moved = 3 * x.numel() * x.element_size() + 4 * N
        ms = do_bench(fn, warmup=1, rep=5)
        return {"ms": round(ms, 4), "GB/s": round(moved / (ms * 1e-3) / 1e9)}

    rows = run(bench)
    assert all(set(row) == {"ms", "GB/s"} for row in rows)


if __name__ == "__main__":
    main()
