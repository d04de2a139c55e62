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


def reference(x, weight, *, eps):
    """The definition. kbench passes the inputs as float64 tensors."""
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


rmsnorm = kbench.Operator(
    "my_rmsnorm",
    axes=("M", "N"),
    # The tensors by name, with their axes. The dtype is that of the case, and kbench fills inputs with normal values.
    inputs={"x": kbench.Tensor("M", "N"), "weight": kbench.Tensor("N")},
    outputs={"y": kbench.Tensor("M", "N")},
    # A number that a config can sweep, with its default.
    scalars={"eps": 1e-6},
    reference=reference,
    # The allowed error of the float32 arithmetic, in units in the last place of float32.
    tolerance=16,
    # Row i of the output depends on row i of x only. kbench then checks large outputs in slices of rows.
    rows="M",
)


@rmsnorm.provider("torch-native")
def torch_native(x, weight, *, eps):
    """`eps` comes from the case, because it is one of the operator's scalars."""
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)


@rmsnorm.provider("torch-compile", factory=True)
def torch_compile(case, *, eps):
    """A factory gets the case and returns the function to time. The time that it takes is reported as `build_ms`."""
    return torch.compile(lambda x, weight: reference(x.float(), weight.float(), eps=eps).to(x.dtype), dynamic=False)


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
def triton_rows(x, weight, *, eps, num_warps=4):
    """A config can sweep the other keyword-only arguments: see `providers:` in rmsnorm.yaml."""
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        x = x if x.stride(1) == 1 else x.contiguous()
        weight = weight.contiguous()
        rows, columns = x.shape
        block = triton.next_power_of_2(columns)
        _rmsnorm_rows[(rows,)](out, x, weight, x.stride(0), columns, eps, block, num_warps=num_warps)
    return out
