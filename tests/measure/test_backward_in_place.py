"""Backward kernels that overwrite an input or a gradient that they receive: what they may do, and what is wrong."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from in_process import matrices, measured, said
from torch import Tensor

product = matrices("backward-in-place", lambda x, w: x * x * w, "x w", gradients=("x", "w"), rows="M")

for name in ("over-x", "over-dy", "undeclared", "saving"):
    product.provider(name)(lambda x, w: x * x * w)


@product.backward("over-x", mutates="x")
def over_x(dy: Tensor, x: Tensor, w: Tensor) -> Tensor:
    d_w = x * x * dy
    x.mul_(2).mul_(w).mul_(dy)
    return d_w


@product.backward("over-dy", mutates={"gradient of y": "w"})
def over_dy(dy: Tensor, x: Tensor, w: Tensor) -> Tensor:
    d_x = 2 * x * w * dy
    dy.mul_(x).mul_(x)
    return d_x


@product.backward("undeclared")
def undeclared(dy: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    d_w = over_x(dy, x, w)
    return x.clone(), d_w


@product.backward("saving", saves=("y",), mutates={"w": "x"})
def saving(dy: Tensor, x: Tensor, w: Tensor, saved: tuple[Tensor]) -> Tensor:
    torch.mul(saved[0] / x * 2, dy, out=w)
    return x * x * dy


both = matrices("both-passes", lambda x, w: x * x * w, "x w", gradients=("x", "w"), rows="M")

for name in ("new", "over-x", "undeclared", "wrong-output", "wrong-gradient", "one-value", "too-few"):
    both.provider(name)(lambda x, w: x * x * w)


@both.full("new")
def new_both(dy: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    return x * x * w, (2 * x * w * dy, x * x * dy)


@both.full("over-x", mutates="x")
@both.full("undeclared")
def both_over_x(dy: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    y = x * x * w
    return y, over_x(dy, x, w)


both.full("wrong-output")(lambda dy, x, w: (x * w, (2 * x * w * dy, x * x * dy)))
both.full("wrong-gradient")(lambda dy, x, w: (x * x * w, (x * w * dy, x * x * dy)))
both.full("one-value")(lambda dy, x, w: x * x * w)
both.full("too-few")(lambda dy, x, w: (x * x * w, 2 * x * w * dy))


def test_one_call_for_both_passes() -> None:
    found = {name: said(row) for name, row in measured(both, M=8, N=16, mode="full").items()}
    assert [name for name, verdict in found.items() if verdict == "ok"] == ["new", "over-x"]
    assert found["wrong-output"].startswith("wrong y: ") and found["wrong-gradient"].startswith("wrong gradient of x: ")
    assert found["one-value"] == "wrong returned Tensor, expected (outputs, gradients)"
    assert found["too-few"] == "wrong returned 1 value, expected 2: gradient of x, gradient of w"
    assert found["undeclared"].startswith("wrong ")


@pytest.mark.parametrize("mode", ["backward", "full"])
def test_gradients_in_the_place_of_other_tensors(mode: str) -> None:
    found = {name: said(row) for name, row in measured(product, M=8, N=16, mode=mode).items()}
    assert [name for name, verdict in found.items() if verdict == "ok"] == ["over-x", "over-dy", "saving"]
    assert found["undeclared"] == "wrong changed its input x in place; work on a copy, or declare it with mutates="


square = matrices("backward-once", lambda x: x * x, gradients=("x",))
square.provider("autograd")(lambda x: x * x)


class SavesItsGradient(torch.autograd.Function):
    """Computes the gradient in the forward pass, and scales it in place in the backward pass. Losses do this to save memory."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, tells_autograd: bool) -> Tensor:
        ctx.save_for_backward(2 * x)
        ctx.tells_autograd = tells_autograd
        return x * x

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None]:
        (gradient,) = ctx.saved_tensors
        (gradient if ctx.tells_autograd else gradient.data).mul_(dy)
        return gradient, None


square.provider("in-torch")(lambda x: SavesItsGradient.apply(x, True))
square.provider("in-a-kernel")(lambda x: SavesItsGradient.apply(x, False))


@square.provider("broken")
def broken(x: Tensor) -> Tensor:
    y = x.exp()
    z = y * y
    y.add_(1)  # autograd needs y
    return z


@pytest.mark.parametrize(
    ("provider", "reason"),
    [
        (
            "in-torch",
            "unsupported its backward pass changes in place what its forward pass saved, so it cannot be called twice; "
            "measure it in mode full",
        ),
        (
            "in-a-kernel",
            "wrong correct at the first call, then returned the same memory for two calls: the later result overwrites the "
            "earlier one; if its backward pass changes in place what its forward pass saved, measure it in mode full",
        ),
        ("broken", "error RuntimeError: one of the variables needed for gradient computation has been modified"),
    ],
)
def test_a_backward_pass_that_works_once_is_for_mode_full(provider: str, reason: str) -> None:
    names = ["autograd", provider]
    assert said(measured(square, names, M=8, N=16, mode="backward")[provider]).startswith(reason)
    if provider != "broken":
        assert said(measured(square, names, M=8, N=16, mode="full")[provider]) == "ok"
