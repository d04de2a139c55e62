"""Integer outputs, of which one may be off by one, and an edge input."""

import torch

import kbench

rounded = kbench.Operator(
    "rounded",
    axes=("N",),
    dtypes=("float64", "float32"),
    inputs={"x": kbench.Tensor("N")},
    outputs={"q": kbench.Tensor("N", dtype="int32", ulps=1), "sign": kbench.Tensor("N", dtype="int8")},
    reference=lambda x: ((x * 100).round().int(), x.sign().to(torch.int8)),
    edges={"all negative": lambda case, x: (-x.abs() - 1,)},
)


@rounded.provider("right")
def right(x):
    return (x * 100).round().int(), x.sign().to(torch.int8)


@rounded.provider("off-by-one")
def off_by_one(x):
    return (x * 100).round().int() + 1, x.sign().to(torch.int8)


@rounded.provider("off-by-two")
def off_by_two(x):
    return (x * 100).round().int() + 2, x.sign().to(torch.int8)


@rounded.provider("positive-only")
def positive_only(x):
    sign = x.sign().to(torch.int8)
    return (x * 100).round().int(), sign if (x > 0).any() else -sign
