# mypy: ignore-errors
"""The mathematics of RMS normalisation for the Triton kernels of `kbench/kernels/norms/`, which say what each function is."""

import triton
import triton.language as tl

from kbench.kernels.norms.mathematics import Mathematics


@triton.jit
def value(loaded):
    return loaded[0]


@triton.jit
def squares(x, pivot):
    return (x * x,)


@triton.jit
def reciprocal_root(sums, pivot, N, eps):
    return (tl.rsqrt(sums[0] / N + eps),)


@triton.jit
def scaled(x, statistics, weights):
    return (x * statistics[0] * weights[0],)


@triton.jit
def normalised(x, statistics):
    return x * statistics[0]


@triton.jit
def product(d, normalised):
    """A term of the mean for `gradient`, and of the weight's gradient, by what d is."""
    return (d * normalised,)


@triton.jit
def gradient(d, normalised, means, statistics, further):
    """d is the gradient of y times the weight. The mean takes out of it what would lengthen x, which changes nothing."""
    return (d - normalised * means[0]) * statistics[0]


RMSNORM = Mathematics(
    value, squares, reciprocal_root, scaled, False, normalised, product, product, gradient, row_sums=1, column_sums=1
)
