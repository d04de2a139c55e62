"""RMS normalisation as an operator of your own: y = x / sqrt(mean(x^2) + eps) * weight.

kbench check examples/rmsnorm.yaml    checks every provider on random inputs and on edge inputs
kbench run examples/rmsnorm.yaml      checks and times them, writes results/rmsnorm.csv and a plot
"""

import torch

import kbench

try:
    import triton
    import triton.language as tl
except ImportError:  # without Triton the provider `triton` is "unavailable"; everything else still runs
    triton = None

EPS = 1e-6


def inputs(case, randn):
    """`case` has the values of the axes; `randn(*shape)` draws normal values of the case's dtype on the device."""
    return randn(case.M, case.N), randn(case.N)


def reference(case, x, weight):
    """The definition. kbench passes the inputs as float64 tensors."""
    return x / (x.square().mean(-1, keepdim=True) + EPS).sqrt() * weight


rmsnorm = kbench.Operator(
    "rmsnorm",
    axes=("M", "N"),
    inputs=inputs,
    reference=reference,
    # Each input is read once and the output is written once. GB/s is computed from this number.
    bytes=lambda case: (2 * case.M * case.N + case.N) * case.itemsize,
    # The allowed error of the float32 arithmetic, in units in the last place of float32.
    tolerance=lambda case: 16.0,
    # Row i of the output depends on row i of x only. kbench then checks large outputs in slices of rows.
    rowwise=True,
)


@rmsnorm.provider("torch-native")
def torch_native(x, weight):
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, EPS)


@rmsnorm.provider("torch-compile", factory=True)
def torch_compile(case):
    """A factory gets the case and returns the function to time. The time that it takes is reported as `build_ms`."""
    return torch.compile(lambda x, weight: reference(case, x.float(), weight.float()).to(x.dtype), dynamic=False)


if triton:

    @triton.jit
    def _rmsnorm_rows(out, x, weight, stride, N, eps, BLOCK: tl.constexpr):
        """One program per row. The row stays in registers, and the arithmetic is float32."""
        row = tl.program_id(0).to(tl.int64)
        columns = tl.arange(0, BLOCK)
        values = tl.load(x + row * stride + columns, mask=columns < N, other=0.0).to(tl.float32)
        factors = tl.load(weight + columns, mask=columns < N, other=0.0).to(tl.float32)
        scale = 1 / tl.sqrt(tl.sum(values * values, 0) / N + eps)
        tl.store(out + row * N + columns, values * scale * factors, mask=columns < N)


def too_long(case):
    """The reason to decline a case, or None. A declined case gets the status `unsupported`."""
    return "N > 65536: one program cannot hold a whole row" if case.N > 65536 else None


@rmsnorm.provider("triton", requires="triton", supports=too_long)
def triton_rows(x, weight, *, num_warps=4):
    """A config can sweep the keyword-only arguments: see `providers:` in rmsnorm.yaml."""
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        x = x if x.stride(1) == 1 else x.contiguous()
        weight = weight.contiguous()
        rows, columns = x.shape
        block = triton.next_power_of_2(columns)
        _rmsnorm_rows[(rows,)](out, x, weight, x.stride(0), columns, EPS, block, num_warps=num_warps)
    return out
