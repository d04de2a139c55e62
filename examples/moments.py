"""The mean and the variance of each row: an operator with two outputs, both float32 whatever the dtype of the input.

kbench check examples/moments.yaml
kbench run examples/moments.yaml
"""

import torch

import kbench

try:
    import triton
    import triton.language as tl
except ImportError:  # without Triton the provider `triton` is "unavailable"; everything else still runs
    triton = None


def reference(x):
    """A tuple with one tensor per output, in the order of `outputs`."""
    mean = x.mean(-1)
    return mean, (x - mean[:, None]).square().mean(-1)


moments = kbench.Operator(
    "moments",
    axes=("M", "N"),
    inputs={"x": kbench.Tensor("M", "N")},
    outputs={
        "mean": kbench.Tensor("M", dtype="float32", tolerance=16),  # its own tolerance
        "variance": kbench.Tensor("M", dtype="float32"),  # the tolerance of the operator
    },
    reference=reference,
    tolerance=32,
    rows="M",
)


@moments.provider("torch-native")
def torch_native(x):
    """Returns the outputs in their order. A wrong output is named in the reason: `variance: 4 of 32 elements wrong`."""
    variance, mean = torch.var_mean(x.float(), -1, correction=0)
    return mean, variance


if triton:

    @triton.jit
    def _moments_rows(mean, variance, x, stride, N, BLOCK: tl.constexpr):
        """One program per row. The row stays in registers while it is read twice: a sum of squares would lose digits."""
        row = tl.program_id(0).to(tl.int64)
        columns = tl.arange(0, BLOCK)
        values = tl.load(x + row * stride + columns, mask=columns < N, other=0.0).to(tl.float32)
        middle = tl.sum(values, 0) / N
        apart = tl.where(columns < N, values - middle, 0.0)
        tl.store(mean + row, middle)
        tl.store(variance + row, tl.sum(apart * apart, 0) / N)


def too_long(case):
    """The reason to decline a case, or None. A declined case gets the status `unsupported`."""
    return "N > 65536: one program cannot hold a whole row" if case.N > 65536 else None


@moments.provider("triton", requires="triton", supports=too_long)
def triton_rows(x, *, num_warps=4):
    x = x if x.stride(1) == 1 else x.contiguous()
    rows, columns = x.shape
    mean, variance = (torch.empty(rows, dtype=torch.float32, device=x.device) for _ in range(2))
    if rows:
        block = triton.next_power_of_2(columns)
        _moments_rows[(rows,)](mean, variance, x, x.stride(0), columns, block, num_warps=num_warps)
    return mean, variance
