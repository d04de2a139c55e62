# mypy: ignore-errors
"""Compares an output with its reference in one pass over memory. Import it only if Triton is installed.

torch needs some fifty kernels for the same. correctness/elements.py states the rules, and judges outputs with wrong elements.
"""

from functools import cache

import torch
import triton
import triton.language as tl

BLOCK_ELEMENTS = 4096
KERNEL_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@triton.jit
def _power(x):
    """The power of two at or below |x|; 0 for infinity and NaN."""
    bits = x.to(tl.int64, bitcast=True) & 0x7FF0000000000000
    return tl.where(bits == 0x7FF0000000000000, 0, bits).to(tl.float64, bitcast=True)


@triton.jit
def _compare(output, reference, scale, limits, found, count, AT_SCALE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = at < count
    ulps, eps, tiny = tl.load(limits), tl.load(limits + 1), tl.load(limits + 2)
    units, single_eps, single_tiny = tl.load(limits + 3), tl.load(limits + 4), tl.load(limits + 5)
    exact = tl.load(reference + at, there, 0.0)
    size = tl.load(scale + at, there, 0.0)
    error = tl.abs(tl.load(output + at, there, 0.0).to(tl.float32).to(tl.float64) - exact)
    unit = tl.maximum(_power(size), tiny) * eps
    if AT_SCALE:  # noqa: SIM108  a compile-time branch
        step = unit
    else:
        step = tl.maximum(_power(exact), tiny) * eps
    allowed = ulps * step + units * (tl.maximum(_power(size), single_tiny) * single_eps) + single_tiny
    right = error <= allowed  # not for NaN
    relative = tl.where(size > single_tiny, error / tl.maximum(size, single_tiny), 0.0)
    programs = tl.num_programs(0)
    tl.store(found + tl.program_id(0), tl.sum((there & (right == 0)).to(tl.int32), 0).to(tl.float64))
    tl.store(found + programs + tl.program_id(0), tl.max(tl.where(there & right, error / unit, 0.0), 0))
    tl.store(found + 2 * programs + tl.program_id(0), tl.max(tl.where(there & right, relative, 0.0), 0))


@cache
def _limits(dtype, ulps, units, device):
    info, single = torch.finfo(dtype), torch.finfo(torch.float32)
    values = [ulps, info.eps, info.tiny, units, single.eps, single.tiny]
    return torch.tensor(values, dtype=torch.float64, device=device)


def largest_errors(
    output: torch.Tensor,
    reference: torch.Tensor,
    scale: torch.Tensor,
    *,
    ulps: float,
    units: float,
    at_scale: bool,
) -> tuple[float, float] | None:
    """The largest error in units in the last place of the output, and relative to the scale, if every element is right. None if
    one is not.

    All tensors are contiguous, have the same number of elements, at least one, and lie on one device. `output` has a dtype of
    KERNEL_DTYPES, `reference` and `scale` are float64. `ulps` are allowed of the output's dtype, `units` of float32 at the
    scale. The former count at the reference or, if `at_scale`, at the scale.
    """
    count = output.numel()
    programs = triton.cdiv(count, BLOCK_ELEMENTS)
    found = torch.full((3, programs), torch.nan, dtype=torch.float64, device=output.device)
    limits = _limits(output.dtype, float(ulps), float(units), output.device)
    tensors = output, reference, scale, limits, found
    with torch.cuda.device_of(output):  # a provider may have left another device as the current one
        _compare[(programs,)](*tensors, count, AT_SCALE=at_scale, BLOCK=BLOCK_ELEMENTS, num_warps=8)
    wrong, most_units, most_relative = found.amax(1).tolist()  # NaN if the kernel has not run
    return (most_units, most_relative) if wrong == 0 else None
