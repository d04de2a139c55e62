"""Operators with scalars of all three types, with gradients, and with derived sizes."""

import torch

import kbench


def norm_reference(x, weight, *, eps, centred, power):
    x = x - x.mean(-1, keepdim=True) if centred else x
    return x * (x.abs().pow(power).mean(-1, keepdim=True) + eps).pow(-1 / power) * weight


norm = kbench.Operator(
    "norm",
    axes=("M", "N"),
    inputs={"x": kbench.Tensor("M", "N"), "weight": kbench.Tensor("N")},
    outputs={"y": kbench.Tensor("M", "N")},
    scalars={"eps": 1e-6, "centred": False, "power": 2},
    reference=norm_reference,
    rows="M",
    gradients=("x", "weight"),
    tolerance=256,
    dtypes=("float32", "bfloat16"),
)


@norm.provider("torch")
def torch_norm(x, weight, *, eps, centred, power):
    return norm_reference(x.float(), weight.float(), eps=eps, centred=centred, power=power).to(x.dtype)


@norm.provider("library")
def library_norm(x, weight, *, eps):
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)


halves = kbench.Operator(
    "halves",
    axes=("M", "N"),
    inputs={"x": kbench.Tensor("M", "N")},
    outputs={"y": kbench.Tensor("M", "N/2")},
    reference=lambda x: x[:, ::2] + x[:, 1::2],
    rows="M",
)


@halves.provider("torch")
def torch_halves(x):
    return x[:, ::2] + x[:, 1::2]


product = kbench.Operator(
    "product",
    axes=("M", "N", "K"),
    inputs={"a": kbench.Tensor("M", "K"), "b": kbench.Tensor("K", "N")},
    outputs={"y": kbench.Tensor("M", "N")},
    reference=torch.matmul,
    rows="M",
    tolerance=lambda case: 8 + 2 * case.K**0.5,
)


@product.provider("torch")
def torch_product(a, b):
    return a @ b
