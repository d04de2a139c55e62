"""Runs the CUDA kernels on one shape for each of their regimes, under compute-sanitizer:

    compute-sanitizer --tool memcheck  --error-exitcode 1 python tools/kernels_sanitize.py
    compute-sanitizer --tool racecheck --error-exitcode 1 python tools/kernels_sanitize.py

It needs a CUDA device, and some minutes for each tool. Arguments (float32 bfloat16) choose the dtypes. The exit
code is 1 when an output is wrong.
"""

from __future__ import annotations

import sys

import torch

import kbench
from kbench.measure.correctness.check import accuracy
from kbench.results.case import Case

LENGTHS = (64, 160, 781, 1000, 4096, 12288, 32768, 50257, 131072, 151936, 262144, 1_000_000)
"""Of a row, in elements: a part of a warp, a warp, a block, a cluster of blocks, more than a cluster holds; odd ones."""

ROWS = (1, 5, 16, 67)
"""Few rows, which several blocks share in different ways, and many, of which a warp has several."""


CASES = (
    *((name, "forward") for name in ("softmax", "gelu", "rmsnorm", "layernorm", "add_rmsnorm")),
    *((name, "backward") for name in ("rmsnorm", "layernorm")),
)
"""Operators and modes. All operators have axes M and N; their tensors are matrices and vectors of N elements."""


def fault(operator: kbench.Operator, case: Case, provider: str, device: str) -> str:
    """What is wrong with a provider on a case; empty if it is right."""
    M, N, dtype = case.M, case.N, getattr(torch, case.dtype)
    shapes = [(M, N) if "M" in tensor.axes else (N,) for tensor in operator.inputs.values()]
    inputs = [torch.randn(shape, device=device, dtype=dtype) for shape in shapes]
    received = [torch.randn(M, N, device=device, dtype=dtype)] if case.mode == "backward" else []
    chosen = operator.providers[provider]
    call = chosen.bind_backward(case, {}) if received else chosen.bind(case, {})
    assert call is not None
    returned = call(*received, *inputs)
    outputs = [returned] if isinstance(returned, torch.Tensor) else returned
    # judged on the host: some of torch's own kernels are not clean
    found = accuracy(operator, case, [x.cpu() for x in (*inputs, *received)], *(y.cpu() for y in outputs))
    return found.wrong or ""


def main(dtypes: list[str]) -> None:
    wrong = 0
    for name, mode in CASES:
        operator = kbench.operator(name)
        for N in LENGTHS:
            for M in ROWS if N <= 4096 else ROWS[:3]:
                for dtype in dtypes:
                    choices = {"mode": mode} if mode == "backward" else {}
                    reason = fault(operator, operator.case(dtype, M=M, N=N, **choices), "cuda", "cuda")
                    print(f"{name} {mode} {M} x {N} {dtype}: {reason or 'right'}", flush=True)
                    wrong += bool(reason)
    torch.cuda.synchronize()
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main(sys.argv[1:] or ["float32", "float16", "bfloat16"])
