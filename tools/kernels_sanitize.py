"""Runs the CUDA kernels on one shape for each of their regimes, under compute-sanitizer:

    compute-sanitizer --tool memcheck  --error-exitcode 1 python tools/kernels_sanitize.py
    compute-sanitizer --tool racecheck --error-exitcode 1 python tools/kernels_sanitize.py

It needs a CUDA device, and a minute or two for each tool. Arguments (float32 bfloat16) choose the dtypes. The exit
code is 1 when an output is wrong.
"""

from __future__ import annotations

import sys

import torch

import kbench
from kbench.measure.correctness.check import accuracy

LENGTHS = (64, 160, 781, 1000, 4096, 12288, 32768, 50257, 131072, 151936, 262144, 1_000_000)
"""Of a row, in elements: a part of a warp, a warp, a block, a cluster of blocks, more than a cluster holds; odd ones."""

ROWS = (1, 5, 16, 67)
"""Few rows, which several blocks share in different ways, and many, of which a warp has several."""


def main(dtypes: list[str]) -> None:
    wrong = []
    for name in ("softmax", "gelu"):
        operator = kbench.operator(name)
        for N in LENGTHS:
            for M in ROWS if N <= 4096 else ROWS[:3]:
                for dtype in dtypes:
                    case = operator.case(dtype, M=M, N=N)
                    x = torch.randn(M, N, device="cuda", dtype=getattr(torch, dtype))
                    y = operator.providers["cuda"].bind(case, {})(x)
                    # judged on the host: some of torch's own kernels are not clean
                    fault = accuracy(operator, case, [x.cpu()], y.cpu()).wrong
                    print(f"{name} {M} x {N} {dtype}: {fault or 'right'}", flush=True)
                    wrong += [fault] if fault else []
    torch.cuda.synchronize()
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main(sys.argv[1:] or ["float32", "float16", "bfloat16"])
