# mypy: ignore-errors
"""The mathematics of RMS normalisation after a residual sum, for the Triton kernels of `kbench/kernels/norms/`, which say what
each function is."""

import triton
import triton.language as tl  # noqa: F401 the interpreter wants it where a function is defined

from kbench.operators.rmsnorm import triton_mathematics as rmsnorm


@triton.jit
def residual_sum(loaded):
    return loaded[0] + loaded[1]


@triton.jit
def scaled_and_sum(h, statistics, weights):
    return h * statistics[0] * weights[0], h


@triton.jit
def gradient(d, normalised, means, statistics, further):
    """As in rmsnorm, and the gradient that h has itself."""
    return (d - normalised * means[0]) * statistics[0] + further[0]


ADD_RMSNORM = rmsnorm.RMSNORM._replace(value=residual_sum, results=scaled_and_sum, gradient=gradient)
