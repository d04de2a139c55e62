# mypy: ignore-errors
"""The mathematics of layer normalisation for the Triton kernels of `kbench/kernels/norms/`, which say what each function is."""

import triton
import triton.language as tl

from kbench.kernels.norms.mathematics import Mathematics


@triton.jit
def value(loaded):
    return loaded[0]


@triton.jit
def moments(x, pivot):
    difference = x - pivot
    return difference, difference * difference


@triton.jit
def mean_and_factor(sums, pivot, N, eps):
    """From the sums of differences from the pivot, and of their squares."""
    difference = sums[0] / N
    # not less than 0, and NaN if the row has an infinity: on a GPU, a plain maximum would make 0 of NaN
    variance = tl.maximum(sums[1] / N - difference * difference, 0.0, propagate_nan=tl.PropagateNan.ALL)
    return pivot + difference, tl.rsqrt(variance + eps)


@triton.jit
def scaled_and_shifted(x, statistics, weights):
    return ((x - statistics[0]) * statistics[1] * weights[0] + weights[1],)


@triton.jit
def normalised(x, statistics):
    # x * statistics[1] - statistics[0] * statistics[1] would take one instruction less. But if all elements of a row are nearly
    # the same, it leaves the rounding of the products, which may be larger than the difference.
    return (x - statistics[0]) * statistics[1]


@triton.jit
def terms(d, normalised):
    """Of the means for `gradient`, and of the gradients of weight and bias, by what d is."""
    return d * normalised, d


@triton.jit
def gradient(d, normalised, means, statistics, further):
    """d is the gradient of y times the weight. The means take out of it what would lengthen x or shift it, which changes
    nothing. In this order, three instructions compute an element, also where d is a product."""
    return (d - (normalised * means[0] + means[1])) * statistics[1]


LAYERNORM = Mathematics(
    value,
    moments,
    mean_and_factor,
    scaled_and_shifted,
    True,
    normalised,
    terms,
    terms,
    gradient,
    row_sums=2,
    column_sums=2,
)
