# mypy: ignore-errors
"""Kernels of rows_stream.py: `forward_kernels.registers` with other loads or other stores. Triton must be imported after the
device is set up."""

from types import FunctionType

import triton
import triton.language as tl

from kbench.kernels.norms import forward_kernels
from kbench.kernels.norms.tiles import PLAIN


@triton.jit
def store_first(pointers, values, mask, FULL: tl.constexpr):
    if FULL:
        tl.store(pointers, values, eviction_policy="evict_first")
    else:
        tl.store(pointers, values, mask=mask, eviction_policy="evict_first")


@triton.jit
def load_each_past_l1(pointers, offsets, mask, FULL: tl.constexpr, EVICTION: tl.constexpr = PLAIN):
    loaded = ()
    for i in tl.static_range(len(pointers)):
        if FULL:
            value = tl.load(pointers[i] + offsets, cache_modifier=".cg")
        else:
            value = tl.load(pointers[i] + offsets, mask=mask, other=0.0, cache_modifier=".cg")
        loaded = loaded + (value,)  # noqa: RUF005 Triton has no other way to append
    return loaded


def registers_with(**functions):
    """The kernel `registers`, in which other functions have these names."""
    own = forward_kernels.registers.fn
    copy = FunctionType(own.__code__, own.__globals__ | functions, own.__name__, own.__defaults__)
    copy.__annotations__, copy.__module__, copy.__qualname__ = own.__annotations__, own.__module__, own.__qualname__
    return triton.jit(do_not_specialize=["M", "slices", "span"])(copy)


# The names of kernels in a plan are looked up in this module.
forward_kernels.registers_storing_first = registers_with(store=store_first)
forward_kernels.registers_past_l1 = registers_with(load_each=load_each_past_l1)
STORES_FIRST, LOADS_PAST_L1 = "forward_kernels.registers_storing_first", "forward_kernels.registers_past_l1"
