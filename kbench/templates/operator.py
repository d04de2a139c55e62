"""An operator of my own and two implementations of it, which kbench checks and measures.

    kbench check my_operator.yaml    are they right?
    kbench run my_operator.yaml      how fast are they?

What stands here is an example, a row-wise RMS norm: y = x / sqrt(mean(x^2) + eps) * weight. Put your own operator in its
place, one field after another, and run both commands again.
"""

import torch

import kbench

try:
    import triton
    import triton.language as tl
except ImportError:  # macOS and Windows have no Triton: `mine` is "unavailable" there, everything else runs
    triton = None

EPS = 1e-6


def inputs(case, randn):
    """The tensors that every implementation gets. `case` has the values of the axes, `dtype` and `itemsize`."""
    return randn(case.M, case.N), randn(case.N)


def reference(case, x, weight):
    """What is right. The inputs arrive in float64: write the definition, not something fast."""
    return x / (x.square().mean(-1, keepdim=True) + EPS).sqrt() * weight


operator = kbench.Operator(
    "my_operator",
    axes=("M", "N"),
    inputs=inputs,
    reference=reference,
    # each input read once, each output written once: what GB/s is computed from
    bytes=lambda case: (2 * case.M * case.N + case.N) * case.itemsize,
    # allowed error of the float32 arithmetic, in its units in the last place: one for each step, and some for the mean
    tolerance=lambda case: 16.0,
    # a row of the output follows from the same row of x, so that large outputs can be checked in slices of rows
    rowwise=True,
)


@operator.provider("torch")
def torch_version(x, weight):
    """What people use today: the baseline."""
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, EPS)


if triton:

    @triton.jit
    def _rows(out, x, weight, stride, N, eps, BLOCK: tl.constexpr):
        """One program for each row, which stays in registers. Computes in float32, whatever the inputs are."""
        row = tl.program_id(0).to(tl.int64)
        columns = tl.arange(0, BLOCK)
        values = tl.load(x + row * stride + columns, mask=columns < N, other=0.0).to(tl.float32)
        scale = 1 / tl.sqrt(tl.sum(values * values, 0) / N + eps)
        factors = tl.load(weight + columns, mask=columns < N, other=0.0).to(tl.float32)
        tl.store(out + row * N + columns, values * scale * factors, mask=columns < N)


def too_long(case):
    """The reason to decline a case, or None. The rows of declined cases are `unsupported`, which is no failure."""
    return "N > 65536: a whole row does not fit in the registers of one program" if case.N > 65536 else None


@operator.provider("mine", requires="triton", supports=too_long)
def mine(x, weight, *, num_warps=4):  # keyword-only arguments can be swept: see `providers:` in my_operator.yaml
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        x = x if x.stride(1) == 1 else x.contiguous()
        weight = weight.contiguous()
        rows, columns = x.shape
        _rows[(rows,)](out, x, weight, x.stride(0), columns, EPS, triton.next_power_of_2(columns), num_warps=num_warps)
    return out  # always a new tensor; the inputs must stay as they were
