"""A softmax that is slower by a known amount of work: with `EXTRA_PERCENT=5` it computes 5 % more rows, into spare memory.

comparing_device.py compares it with itself. Its name stays the same, as that of a kernel does when somebody changes
it.
"""

import math
import os

import torch
import triton
import triton.language as tl

import kbench

EXTRA = float(os.environ.get("EXTRA_PERCENT", "0")) / 100


@triton.jit
def one_row(out, x, N, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    v = tl.load(x + cols, mask=cols < N, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + cols, e / tl.sum(e, 0), mask=cols < N)


@triton.jit(do_not_specialize=["M"])
def rows(out, x, spare_out, spare, stride, M, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    if row < M:
        one_row(out + row * N, x + row * stride, N, BLOCK)
    else:
        one_row(spare_out + (row - M) * N, spare + (row - M) * N, N, BLOCK)


@kbench.operator("softmax").provider("kernel", factory=True)
def kernel(case):
    """One row per program; the spare rows are made with the first input."""
    spares = []

    def softmax(x):
        if not spares:
            count = math.ceil(case.M * EXTRA)
            spares.append(torch.ones(max(count, 1), case.N, dtype=x.dtype, device=x.device))
            spares.append(torch.empty_like(spares[0]))
        spare, spare_out = spares
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        block = triton.next_power_of_2(case.N)
        grid = (case.M + math.ceil(case.M * EXTRA),)
        warps = min(max(block // 512, 4), 32)
        rows[grid](out, x, spare_out, spare, x.stride(0), case.M, case.N, BLOCK=block, num_warps=warps)
        return out

    return softmax
