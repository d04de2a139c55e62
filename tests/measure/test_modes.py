"""Backward and full: right gradients are right, however they are made. Everything else is `wrong`, with a reason."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import pytest
from in_process import measured, said
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor as Declared
from kbench.results.row import Row

MATRIX = Declared("M", "N")


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


def saving(*inputs: Tensor, eps: float) -> tuple[object, Tensor]:
    """The forward function, which also saves for the backward kernel."""
    return forward(*inputs, eps=eps), inputs[0]


kernel("kernel", gradients)
kernel("saves-an-output", lambda dy, dh, *inputs, eps: gradients(dy, dh, *inputs[:3], eps=eps), ("h",))
kernel("saves-more", lambda dy, dh, *inputs, eps: gradients(dy, dh, *inputs[:3], eps=eps), saving)
kernel(
    "saves-a-wrong-output",
    lambda *tensors, eps: gradients(*tensors[:5], eps=eps),
    lambda *inputs, eps: ((forward(*inputs, eps=eps)[0], inputs[0] + 1), None),
)


def cheat(name: str, change: Callable[..., object]) -> None:
    """A backward kernel whose right gradients are changed: `change(dx, dw, dy, dh, x, residual, weight)`."""
    kernel(name, lambda *tensors, eps: change(*gradients(*tensors, eps=eps), *tensors))


cheat("second-output-left-out", lambda dx, dw, dy, dh, *rest: (dx - dh, dw))
cheat("scales-d_y", lambda dx, dw, dy, dh, *rest: (dx, dw, dy.mul_(2))[:2])


turns = itertools.count()
cheat("every-other-call", lambda dx, dw, *rest: (dx, dw if next(turns) % 2 == 0 else dw * 3))


@norm.provider("detaches-the-weight")
def detaches(x: Tensor, residual: Tensor, weight: Tensor, *, eps: float) -> tuple[Tensor, Tensor]:
    return forward(x, residual, weight.detach(), eps=eps)


@norm.provider("half-differentiable")
def half_differentiable(x: Tensor, residual: Tensor, weight: Tensor, *, eps: float) -> tuple[Tensor, Tensor]:
    y, h = forward(x, residual, weight, eps=eps)
    return y, h.detach()


@norm.provider("wrong-forward")
def wrong_forward(x: Tensor, residual: Tensor, weight: Tensor, *, eps: float) -> tuple[Tensor, Tensor]:
    y, h = forward(x, residual, weight, eps=eps)
    return y + 1, h  # with the right gradients


SAID = {
    "second-output-left-out": r"wrong gradient of x: every element wrong",
    "scales-d_y": r"wrong changed its input gradient of y in place",
    "every-other-call": r"wrong (correct at the first call, then )?gradient of weight: every element wrong",
    "detaches-the-weight": r"wrong gradient of weight: every element zero",
    "half-differentiable": r"unsupported output h of its forward function is not differentiable",
}

RIGHT = ["autograd", "kernel", "saves-an-output", "saves-more"]


@pytest.fixture(scope="module", params=["backward", "full"])
def rows(request: pytest.FixtureRequest) -> dict[str, Row]:
    return measured(norm, M=5, N=6, mode=request.param)


@pytest.mark.slow
@pytest.mark.parametrize("provider", SAID)
def test_what_is_wrong_with_gradients_is_said(rows: dict[str, Row], provider: str) -> None:
    assert re.match(SAID[provider], said(rows[provider])), said(rows[provider])


@pytest.mark.parametrize("provider", RIGHT)
def test_right_gradients_are_timed(rows: dict[str, Row], provider: str) -> None:
    assert said(rows[provider]) == "ok"
    assert rows[provider].ms and rows[provider].deterministic


def test_a_wrong_output_counts_in_full_only(rows: dict[str, Row]) -> None:
    row = rows["wrong-forward"]
    if row.case.mode == "full":
        assert said(row).startswith("wrong y: every element wrong")
        assert said(rows["saves-a-wrong-output"]).startswith("wrong h: every element wrong")
    else:
        assert said(row) == said(rows["saves-a-wrong-output"]) == "ok"


@pytest.mark.parametrize(("dtype", "mode"), [("float16", "backward"), ("bfloat16", "full")])
def test_gradients_in_16_bits_are_right(dtype: str, mode: str) -> None:
    assert said(measured(norm, ["autograd"], dtype=dtype, M=9, N=32, mode=mode)["autograd"]) == "ok"
