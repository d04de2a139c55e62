"""An operator that judges the values itself, and that counts too many bytes for N=64."""

import torch

import kbench


def check(case, inputs, outputs, expected):
    kept = outputs["y"] != 0
    if not torch.allclose(outputs["y"][kept].double(), expected["y"][kept]):
        return "an element is neither 0 nor twice the input"
    return None if 0 < kept.sum() < kept.numel() or kept.numel() < 100 else "all elements were treated alike"


dropout = kbench.Operator(
    "dropout",
    axes=("N",),
    inputs={"x": kbench.Tensor("N")},
    outputs={"y": kbench.Tensor("N")},
    reference=lambda x: 2 * x,
    check=check,
    bytes=lambda case: 10**12 if case.N == 64 else 2 * case.N * 4,
)


@dropout.provider("torch")
def of_torch(x):
    return torch.nn.functional.dropout(x, 0.5)


@dropout.provider("keeps-all")
def keeps_all(x):
    return 2 * x


@dropout.provider("adds")
def adds(x):
    return x + 3


@dropout.provider("short")
def short(x):
    return torch.nn.functional.dropout(x, 0.5)[1:].clone()
