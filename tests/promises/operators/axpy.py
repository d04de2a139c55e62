"""Providers that work in place, into a buffer, or not at all."""

import torch

import kbench

axpy = kbench.Operator(
    "axpy",
    axes=("N",),
    inputs={"x": kbench.Tensor("N"), "y": kbench.Tensor("N")},
    outputs={"z": kbench.Tensor("N")},
    scalars={"a": 2.0},
    reference=lambda x, y, *, a: a * x + y,
    tolerance=4,
)


@axpy.provider("new")
def new(x, y, *, a):
    return torch.add(y, x, alpha=a)


@axpy.provider("in-place", mutates={"y": "z"})
def in_place(x, y, *, a):
    y.add_(x, alpha=a)


@axpy.provider("in-place-and-wrong", mutates={"y": "z"})
def in_place_and_wrong(x, y, *, a):
    y.add_(x)


@axpy.provider("imprecise")
def imprecise(x, y, *, a):
    """Off by 64 to 128 units in the last place of float32, or by 4 to 8 of bfloat16."""
    return (a * x.double() + y.double()).mul_(1 + (2**-17 if x.dtype == torch.float32 else 2**-5)).to(x.dtype)


@axpy.provider("buffer", out=["z"])
def buffer(x, y, *, a, z):
    torch.add(y, x, alpha=a, out=z)


@axpy.provider("empty-buffer", out=["z"])
def empty_buffer(x, y, *, a, z):
    pass


@axpy.provider("leaves-its-input", mutates={"y": "z"})
def leaves_its_input(x, y, *, a):
    torch.add(y, x, alpha=a)


filled = []


@axpy.provider("fills-once", out=["z"])
def fills_once(x, y, *, a, z):
    """Trusts that its buffer still holds the result."""
    if not filled:
        filled.append(torch.add(y, x, alpha=a, out=z))


@axpy.provider("moves-its-buffer", out=["z"])
def moves_its_buffer(x, y, *, a, z):
    z.data = torch.add(y, x, alpha=a)


@axpy.provider("asks-for-gradients")
def asks_for_gradients(x, y, *, a):
    return new(x.requires_grad_(), y, a=a).detach()


@axpy.provider("after-it")
def after_it(x, y, *, a):
    assert not x.requires_grad, "what one provider asks for slows down another"
    return new(x, y, a=a)
