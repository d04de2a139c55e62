"""Runs the CUDA kernels on one shape for each of their regimes, under compute-sanitizer:

    compute-sanitizer --tool memcheck  --error-exitcode 1 python tools/kernels_sanitize.py
    compute-sanitizer --tool racecheck --error-exitcode 1 python tools/kernels_sanitize.py

It needs a CUDA device, and some minutes for each tool. Less is enough after a change of the norms:

    ... tools/kernels_sanitize.py bfloat16 --only rmsnorm,layernorm --lengths 64,781,4096,32768 --rows 1,5 --limit-s 30

The exit code is 1 when an output is wrong. Shapes that --limit-s leaves out are counted.
"""

from __future__ import annotations

import argparse
import sys
import time

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

    def random(tensor: kbench.Tensor) -> torch.Tensor:
        return torch.randn(tensor.shape_in(case), device=device, dtype=getattr(torch, tensor.dtype_in(case)))

    inputs = [random(tensor) for tensor in operator.inputs.values()]
    received = (
        [random(tensor) for tensor in operator.output_gradients(case).values()] if case.mode == "backward" else []
    )
    chosen = operator.providers[provider]
    call = chosen.bind_backward(case, {}) if received else chosen.bind(case, {})
    saves = chosen.bind_saves(case, {}) if received else None
    assert call is not None
    kept = saves(*inputs)[1:] if callable(saves) else ()
    returned = call(*received, *inputs, *kept)
    outputs = [returned] if isinstance(returned, torch.Tensor) else returned
    # judged on the host: some of torch's own kernels are not clean
    found = accuracy(operator, case, [x.cpu() for x in (*inputs, *received)], *(y.cpu() for y in outputs))
    return found.wrong or ""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("dtypes", nargs="*", default=["float32", "float16", "bfloat16"])
    parser.add_argument("--only", type=lambda text: text.split(","), help="these operators")
    parser.add_argument(
        "--weights",
        type=lambda text: text.split(","),
        default=["same", "float32"],
        help="dtypes of the norms' weights. float32 is for rows in 16 bits. Default: same,float32",
    )
    parser.add_argument("--lengths", type=numbers, default=LENGTHS)
    parser.add_argument("--rows", type=numbers, help=f"default: {ROWS}, or the first three for more than 4096 elements")
    parser.add_argument("--limit-s", type=float, default=float("inf"))
    asked = parser.parse_args()
    shapes = [
        (name, mode, M, N, dtype, weights)
        for N in asked.lengths
        for name, mode in CASES
        if not asked.only or name in asked.only
        for M in asked.rows or (ROWS if N <= 4096 else ROWS[:3])
        for dtype in asked.dtypes
        for weights in asked.weights
        if weights == "same" or (dtype != "float32" and "weight_dtype" in kbench.operator(name).choices)
    ]
    wrong, end = 0, time.monotonic() + asked.limit_s
    for number, (name, mode, M, N, dtype, weights) in enumerate(shapes):
        if time.monotonic() > end:
            print(f"the time is over: {len(shapes) - number} of {len(shapes)} shapes are left", flush=True)
            break
        operator = kbench.operator(name)
        choices = {"mode": mode} if mode == "backward" else {}
        if weights != "same":
            choices["weight_dtype"] = weights
        reason = fault(operator, operator.case(dtype, M=M, N=N, **choices), "cuda", "cuda")
        beside = f", weights in {weights}" if weights != "same" else ""
        print(f"{name} {mode} {M} x {N} {dtype}{beside}: {reason or 'right'}", flush=True)
        wrong += bool(reason)
    torch.cuda.synchronize()
    sys.exit(bool(wrong))


def numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


if __name__ == "__main__":
    main()
