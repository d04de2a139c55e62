"""Dropout: an operator without a single right answer, which brings its own check of the output.

kbench check examples/dropout.yaml
kbench run examples/dropout.yaml
"""

import math

import torch

import kbench


def check(case, inputs, outputs, expected):
    """What is wrong with the outputs, in words, or None. Each argument but the case is a dict of tensors by name; `expected`
    has the outputs of the reference, in float64."""
    y, kept = outputs["y"].double(), expected["y"]
    if not y.numel():
        return None
    dropped = y == 0
    right = dropped | torch.isclose(y, kept, rtol=torch.finfo(outputs["y"].dtype).eps, atol=0, equal_nan=True)
    if not right.all():
        return f"{(~right).sum().item()} elements are neither 0 nor x / (1 - p)"
    share, deviation = dropped.double().mean().item(), math.sqrt(case.p * (1 - case.p) / y.numel())
    if abs(share - case.p) > 6 * deviation:
        return f"{share:.4f} of the elements are 0, expected {case.p} with a standard deviation of {deviation:.4f}"
    return None


dropout = kbench.Operator(
    "dropout",
    axes=("N",),
    inputs={"x": kbench.Tensor("N")},
    outputs={"y": kbench.Tensor("N")},
    scalars={"p": 0.1},
    reference=lambda x, *, p: x / (1 - p),  # the elements that are kept
    check=check,
)


@dropout.provider("torch-native")
def torch_native(x, *, p):
    return torch.nn.functional.dropout(x, p)


@dropout.provider("mask")
def mask(x, *, p):
    """Draws one random number for each element, as a kernel without a library does."""
    return x * (torch.rand(x.shape, device=x.device) >= p) * (1 / (1 - p))
