"""a * x + y: out of place, in place, and into a buffer that the caller gives.

kbench check examples/axpy.yaml
kbench run examples/axpy.yaml
"""

import torch

import kbench

try:
    import triton
    import triton.language as tl
except ImportError:  # without Triton the provider `triton` is "unavailable"; everything else still runs
    triton = None

axpy = kbench.Operator(
    "axpy",
    axes=("N",),
    inputs={"x": kbench.Tensor("N"), "y": kbench.Tensor("N")},
    outputs={"z": kbench.Tensor("N")},
    scalars={"a": 2.0},
    reference=lambda x, y, *, a: a * x + y,
    tolerance=4,
)


@axpy.provider("torch-native")
def torch_native(x, y, *, a):
    """Returns a new tensor. It must not change an input."""
    return torch.add(y, x, alpha=a)


@axpy.provider("torch-in-place", mutates={"y": "z"})
def torch_in_place(x, y, *, a):
    """After the call, y holds the output z, so there is nothing to return. kbench writes y's values back before each timed
    call, and the time for that does not count."""
    y.add_(x, alpha=a)


@axpy.provider("torch-out", out=["z"])
def torch_out(x, y, *, a, z):
    """Writes into z, a buffer that kbench has allocated before the call."""
    torch.add(y, x, alpha=a, out=z)


if triton:

    @triton.jit
    def _axpy(x, y, a, N, BLOCK: tl.constexpr):
        offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        inside = offsets < N
        sum = a * tl.load(x + offsets, mask=inside).to(tl.float32) + tl.load(y + offsets, mask=inside).to(tl.float32)
        tl.store(y + offsets, sum, mask=inside)


@axpy.provider("triton", requires="triton", mutates={"y": "z"})
def triton_in_place(x, y, *, a, block=1024):
    if y.numel():
        _axpy[(triton.cdiv(y.numel(), block),)](x, y, a, y.numel(), block)
