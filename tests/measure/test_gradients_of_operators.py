"""Modes backward and full: right gradients are right, however they are made. Everything else is `wrong`, with a reason."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from in_process import matrices, measured, said
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor as Declared
from kbench.results.row import Row

MATRIX = Declared("M", "N")


# -- two outputs, and an input without a gradient


def _exact(x: Tensor, residual: Tensor, weight: Tensor, *, eps: float) -> tuple[Tensor, Tensor]:
    h = x + residual
    return h / (h.square().mean(-1, keepdim=True) + eps).sqrt() * weight, h


norm = Operator(
    "modes-norm",
    axes=("M", "N"),
    inputs={"x": MATRIX, "residual": MATRIX, "weight": Declared("N")},
    outputs={"y": MATRIX, "h": MATRIX},
    scalars={"eps": 1e-6},
    reference=_exact,
    rows="M",
    gradients=("x", "weight"),
)


@norm.provider("autograd")
def forward(x: Tensor, residual: Tensor, weight: Tensor, *, eps: float) -> tuple[Tensor, Tensor]:
    h = x + residual
    v = h.float()
    return (v * (v.square().mean(-1, keepdim=True) + eps).rsqrt() * weight).to(x.dtype), h


def gradients(
    dy: Tensor, dh: Tensor, x: Tensor, residual: Tensor, weight: Tensor, *, eps: float
) -> tuple[Tensor, Tensor]:
    h, dy = (x + residual).float(), dy.float()
    r = (h.square().mean(-1, keepdim=True) + eps).rsqrt()
    g = dy * weight
    dx = r * g - h * r**3 * (g * h).mean(-1, keepdim=True) + dh
    return dx.to(x.dtype), (dy * h * r).sum(0).to(x.dtype)


def kernel(name: str, backward: Callable[..., object], saves: object = None) -> None:
    """A provider with the right forward function and this backward kernel."""
    norm.provider(name)(forward)
    norm.backward(name, saves=saves)(backward)  # type: ignore[arg-type]


def changed(name: str, change: Callable[..., object]) -> None:
    """A backward kernel whose right gradients are changed: `change(dx, dw, dy, dh, x, residual, weight)`."""
    kernel(name, lambda *tensors, eps: change(*gradients(*tensors, eps=eps), *tensors))


def saving_wrongly(*inputs: Tensor, eps: float) -> tuple[object, None]:
    return (forward(*inputs, eps=eps)[0], inputs[0] + 1), None


kernel("saves-an-output", lambda dy, dh, *inputs, eps: gradients(dy, dh, *inputs[:3], eps=eps), ("h",))
kernel("saves-a-wrong-output", lambda *tensors, eps: gradients(*tensors[:5], eps=eps), saving_wrongly)
changed("second-output-left-out", lambda dx, dw, dy, dh, *rest: (dx - dh, dw))
changed("scales-d_y", lambda dx, dw, dy, dh, *rest: (dx, dw, dy.mul_(2))[:2])
norm.provider("detaches-the-weight")(lambda x, residual, weight, *, eps: forward(x, residual, weight.detach(), eps=eps))


@norm.provider("half-differentiable")
def half_differentiable(x: Tensor, residual: Tensor, weight: Tensor, *, eps: float) -> tuple[Tensor, Tensor]:
    y, h = forward(x, residual, weight, eps=eps)
    return y, h.detach()


@norm.provider("wrong-forward")
def wrong_forward(x: Tensor, residual: Tensor, weight: Tensor, *, eps: float) -> tuple[Tensor, Tensor]:
    y, h = forward(x, residual, weight, eps=eps)
    return y + 1, h  # with the right gradients


SAID = {
    "autograd": "ok",
    "saves-an-output": "ok",
    "second-output-left-out": r"wrong gradient of x: every element wrong",
    "scales-d_y": r"wrong changed its input gradient of y in place",
    "detaches-the-weight": r"wrong gradient of weight: every element zero",
    "half-differentiable": r"unsupported output h of its forward function is not differentiable",
}


@pytest.fixture(scope="module", params=["backward", "full"])
def rows(request: pytest.FixtureRequest) -> dict[str, Row]:
    return measured(norm, M=5, N=6, mode=request.param)


@pytest.mark.slow
@pytest.mark.parametrize("provider", SAID)
def test_right_gradients_are_timed_and_what_is_wrong_with_others_is_said(rows: dict[str, Row], provider: str) -> None:
    assert re.match(SAID[provider], said(rows[provider])), said(rows[provider])
    assert bool(rows[provider].ms) is (SAID[provider] == "ok")


def test_a_wrong_output_counts_in_full_only(rows: dict[str, Row]) -> None:
    row = rows["wrong-forward"]
    if row.case.mode == "full":
        assert said(row).startswith("wrong y: every element wrong")
        assert said(rows["saves-a-wrong-output"]).startswith("wrong h: every element wrong")
    else:
        assert said(row) == said(rows["saves-a-wrong-output"]) == "ok"


# -- two gradients of the same shape, in new memory and in that of other tensors

product = matrices("modes-product", lambda x, w: x * x * w, "x w", gradients=("x", "w"), rows="M")
KERNELS = ("over-x", "over-dy", "saving", "undeclared", "swapped", "one-tensor")
BOTH = ("both-over-x", "both-undeclared", "wrong-output", "one-value", "too-few", "named")
for name in KERNELS + BOTH:
    product.provider(name)(lambda x, w: x * x * w)
product.backward("swapped")(lambda dy, x, w: (x * x * dy, 2 * x * w * dy))
product.backward("one-tensor")(lambda dy, x, w: (2 * x * w * dy,) * 2)


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
def saving_y(dy: Tensor, x: Tensor, w: Tensor, saved: tuple[Tensor]) -> Tensor:
    torch.mul(saved[0] / x * 2, dy, out=w)
    return x * x * dy


@pytest.mark.parametrize("mode", ["backward", "full"])
def test_gradients_of_one_shape_have_an_order_and_may_lie_where_the_kernel_declares(mode: str) -> None:
    reasons = {name: said(row) for name, row in measured(product, KERNELS, M=8, N=16, mode=mode).items()}
    assert [name for name, reason in reasons.items() if reason == "ok"] == ["over-x", "over-dy", "saving"]
    assert reasons["undeclared"] == "wrong changed its input x in place; work on a copy, or declare it with mutates="
    assert reasons["swapped"].startswith("wrong gradient of x: every element wrong; first at [0, 0]")
    assert reasons["one-tensor"].startswith("wrong gradient of w: every element wrong; first at [0, 0]")


@product.full("both-over-x", mutates="x")
@product.full("both-undeclared")
def both_over_x(dy: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    y = x * x * w
    return y, over_x(dy, x, w)


product.full("wrong-output")(lambda dy, x, w: (x * w, (2 * x * w * dy, x * x * dy)))
product.full("one-value")(lambda dy, x, w: x * x * w)
product.full("too-few")(lambda dy, x, w: (x * x * w, 2 * x * w * dy))
product.full("named")(lambda dy, x, w: (x * x * w, {"x": 2 * x * w * dy, "w": x * x * dy}))


def test_one_call_for_both_passes() -> None:
    reasons = {name: said(row) for name, row in measured(product, BOTH, M=8, N=16, mode="full").items()}
    assert [name for name, reason in reasons.items() if reason == "ok"] == ["both-over-x"]
    assert reasons["wrong-output"].startswith("wrong y: ")
    assert reasons["one-value"] == "wrong returned Tensor, expected (outputs, gradients)"
    assert reasons["too-few"] == "wrong returned 1 value, expected 2: gradient of x, gradient of w"
    assert reasons["named"] == "wrong returned a dict; return a tuple (gradient of x, gradient of w)"
    assert reasons["both-undeclared"].startswith("wrong ")


# -- a backward pass that works once

square = matrices("modes-once", lambda x: x * x, gradients=("x",))
square.provider("autograd")(lambda x: x * x)


class SavesItsGradient(torch.autograd.Function):
    """Computes the gradient in the forward pass, and scales it in place in the backward pass. Losses do this to save memory."""

    @staticmethod
    def forward(ctx: object, x: Tensor, tells_autograd: bool) -> Tensor:
        ctx.save_for_backward(2 * x)  # type: ignore[attr-defined]
        ctx.tells_autograd = tells_autograd  # type: ignore[attr-defined]
        return x * x

    @staticmethod
    def backward(ctx: object, dy: Tensor) -> tuple[Tensor, None]:
        (gradient,) = ctx.saved_tensors  # type: ignore[attr-defined]
        (gradient if ctx.tells_autograd else gradient.data).mul_(dy)  # type: ignore[attr-defined]
        return gradient, None


square.provider("in-torch")(lambda x: SavesItsGradient.apply(x, True))
square.provider("in-a-kernel")(lambda x: SavesItsGradient.apply(x, False))


ONCE = {
    "in-torch": "unsupported its backward pass changes in place what its forward pass saved, so it cannot be called twice; "
    "measure it in mode full",
    "in-a-kernel": "wrong correct at the first call, then returned the same memory for two calls: the later result overwrites "
    "the earlier one; if its backward pass changes in place what its forward pass saved, measure it in mode full",
}


def test_a_backward_pass_that_works_once_is_for_mode_full() -> None:
    backward = measured(square, M=8, N=16, mode="backward")
    assert all(said(backward[name]).startswith(reason) for name, reason in ONCE.items())
    full = measured(square, ["autograd", "in-torch", "in-a-kernel"], M=8, N=16, mode="full")
    assert {said(row) for row in full.values()} == {"ok"}
