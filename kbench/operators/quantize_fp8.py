# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Quantisation of activations to 8 bits, per token: `scale = amax / 448` of each row, and `y = x / scale` as float8_e4m3fn."""

from __future__ import annotations

import torch

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor
from kbench.kernels.matrices import dense, new_rows
from kbench.kernels.torch_fused import add_compiled
from kbench.kernels.triton_launch import Launch, Launcher, long_rows, power_of_two, processors_of

try:
    import triton
    import triton.language as tl
except ImportError:  # then kbench reports the provider `triton` as unavailable
    triton = None

LARGEST = 448.0
"""The largest float8_e4m3fn."""

LEAST_AMAX = 1e-12
"""A smaller amax counts as this one, so that a row of zeros divides by a number. torchao has the same limit."""


def _reference(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scale = x.abs().amax(-1).clamp(min=LEAST_AMAX) / LARGEST
    return x / scale[:, None], scale


quantize_fp8 = Operator(
    "quantize_fp8",
    axes=("M", "N"),
    inputs={"x": Tensor("M", "N")},
    outputs={
        # An element may be one rounding step from x / scale: half a unit at the magnitude of the terms (see error_scale.py).
        # That is about twice the element: x, the largest of the row, and two divisions each contribute once.
        "y": Tensor("M", "N", dtype="float8_e4m3fn", ulps=0.5),
        "scale": Tensor("M", dtype="float32", ulps=1),
    },
    reference=_reference,
    rows="M",
    model_axes=[{"M": "tokens", "N": "hidden"}, {"M": "tokens", "N": "intermediate"}],
    tolerance=2,  # two divisions, or a division and a product with the reciprocal
    dtypes=("bfloat16", "float16", "float32"),
)


@quantize_fp8.provider("torch-native")
def torch_native(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Six calls in float32, each a pass over memory. torch has no single call for this."""
    v = x.float()
    scale = v.abs().amax(-1).clamp(min=LEAST_AMAX) / LARGEST
    return (v / scale[:, None]).to(torch.float8_e4m3fn), scale


add_compiled(quantize_fp8, torch_native)


if triton:
    INTERPRETED = triton.knobs.runtime.interpret

    @triton.jit
    def _to_fp8(v, NATIVE: tl.constexpr):
        """The bits of float8_e4m3fn, rounded to the nearest, ties to even, for float32 up to 448 in magnitude and NaN."""
        if NATIVE:
            return v.to(tl.float8e4nv).to(tl.uint8, bitcast=True)
        bits = v.to(tl.uint32, bitcast=True)
        size = bits & 0x7FFFFFFF
        # from 2^-6 on: 3 of 23 bits of the mantissa remain, and the exponent's bias is 7 in place of 127
        usual = (size - (120 << 23) + 0x7FFFF + ((size >> 20) & 1)) >> 20
        # below: a sum with 2^14 rounds to multiples of 2^-9, and leaves their number in the last bits
        small = (tl.abs(v) + 16384.0).to(tl.uint32, bitcast=True) & 0xF
        rounded = tl.where(v != v, 0x7F, tl.where(size < (121 << 23), small, usual))
        return (rounded | (bits >> 24 & 0x80)).to(tl.uint8)

    @triton.jit
    def quantize_rows(y, scales, x, x_stride, N, BLOCK: tl.constexpr, NATIVE: tl.constexpr, POLICY: tl.constexpr):
        """One program per row, which stays in registers. Grid: M."""
        row, columns = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
        v = tl.load(x + row * x_stride + columns, mask=columns < N, other=0.0, eviction_policy=POLICY).to(tl.float32)
        amax = tl.maximum(tl.max(tl.abs(v), 0), 1e-12)
        has_nan = tl.max((v != v).to(tl.int32), 0) > 0  # which tl.max skips
        scale = tl.where(has_nan, float("nan"), amax / 448.0)
        tl.store(scales + row, scale)
        tl.store(y + row * N + columns, _to_fp8(v / scale, NATIVE), mask=columns < N)


def quantize_launch(bits: torch.Tensor, scales: torch.Tensor, x: torch.Tensor) -> Launch:
    """Converts in hardware from compute capability 8.9 on, and with integer arithmetic before and in the interpreter. Threads
    read 32 bytes each, in up to 8 warps, or in 16 for float32 in rows of up to 8192 elements."""
    (M, N), block, itemsize = x.shape, power_of_two(x.shape[1]), x.element_size()
    native = x.is_cuda and not INTERPRETED and torch.cuda.get_device_capability(x.device) >= (8, 9)
    policy = processors_of(x.device).load_policy(bits.nbytes)  # y is smaller than x
    constants = {"BLOCK": block, "NATIVE": native, "POLICY": policy}
    most = 16 if itemsize == 4 and block <= 8192 else 8
    options = {"num_warps": min(most, max(2, block * itemsize // 1024))}
    return Launch(quantize_rows, M, (x.stride(0), N), constants, options)


QUANTIZE = Launcher(quantize_launch)


@quantize_fp8.provider("triton", requires="triton", supports=long_rows)
def triton_row(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y, scales = new_rows(x, *x.shape, dtype=torch.float8_e4m3fn), new_rows(x, x.shape[0])
    bits = y.view(torch.uint8)  # an older device cannot store float8_e4m3fn
    QUANTIZE((bits, scales), (dense(x),))
    return y, scales
