"""Backward and full: right gradients are right, however they are made. Everything else is `wrong`, with a reason."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import pytest
import torch
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
kernel("saves-without-outputs", lambda *tensors, eps: gradients(*tensors[:5], eps=eps), lambda *inputs: inputs[0])
kernel(
    "saves-a-wrong-output",
    lambda *tensors, eps: gradients(*tensors[:5], eps=eps),
    lambda *inputs, eps: ((forward(*inputs, eps=eps)[0], inputs[0] + 1), None),
)


def cheat(name: str, change: Callable[..., object]) -> None:
    """A backward kernel whose right gradients are changed: `change(dx, dw, dy, dh, x, residual, weight)`."""
    kernel(name, lambda *tensors, eps: change(*gradients(*tensors, eps=eps), *tensors))


cheat("swapped", lambda dx, dw, *rest: (dw, dx))
cheat("only-one", lambda dx, dw, *rest: dx)
cheat("none", lambda dx, dw, *rest: (dx, None))
cheat("half", lambda dx, dw, *rest: (dx, dw.double()))
cheat("too-large", lambda dx, dw, *rest: (dx * 1.01, dw))
cheat("second-output-left-out", lambda dx, dw, dy, dh, *rest: (dx - dh, dw))
cheat("scales-d_y", lambda dx, dw, dy, dh, *rest: (dx, dw, dy.mul_(2))[:2])
cheat("unwritten", lambda dx, dw, *rest: (torch.empty_like(dx), dw))

buffers: dict[int, tuple[Tensor, Tensor]] = {}


@norm.provider("same-memory")
def same_memory(x: Tensor, residual: Tensor, weight: Tensor, *, eps: float) -> tuple[Tensor, Tensor]:
    return forward(x, residual, weight, eps=eps)


@norm.backward("same-memory")
def same_memory_gradients(*tensors: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    found = gradients(*tensors, eps=eps)
    mine = buffers.setdefault(len(tensors[0]), found)
    for buffer, value in zip(mine, found, strict=True):
        buffer.copy_(value)
    return mine


seen: list[tuple[int, int]] = []


def skips_work(dy: Tensor, dh: Tensor, *rest: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Does nothing on a d_y that it has seen, and hopes that the memory still holds the answer."""
    key = (dy.data_ptr(), dy._version)
    if seen == [key]:
        return torch.empty_like(dy), torch.empty_like(rest[2])
    seen[:] = [key]
    return gradients(dy, dh, *rest, eps=eps)


kernel("skips-work", skips_work)


def saving_in_place(x: Tensor, residual: Tensor, weight: Tensor, *, eps: float) -> tuple[object, Tensor]:
    kept = x.clone()
    return forward(x.mul_(2), residual, weight, eps=eps), kept


kernel("saves-in-place", lambda dy, dh, x, residual, weight, kept, *, eps: (dy, dy.sum(0)), saves=saving_in_place)
turns = itertools.count()
cheat("every-other-call", lambda dx, dw, *rest: (dx, dw if next(turns) % 2 == 0 else dw * 3))


@norm.provider("detaches-the-weight")
def detaches(x: Tensor, residual: Tensor, weight: Tensor, *, eps: float) -> tuple[Tensor, Tensor]:
    return forward(x, residual, weight.detach(), eps=eps)


@norm.provider("no-autograd")
def no_autograd(x: Tensor, residual: Tensor, weight: Tensor, *, eps: float) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        return forward(x, residual, weight, eps=eps)


@norm.provider("half-differentiable")
def half_differentiable(x: Tensor, residual: Tensor, weight: Tensor, *, eps: float) -> tuple[Tensor, Tensor]:
    y, h = forward(x, residual, weight, eps=eps)
    return y, h.detach()


@norm.provider("one-output")
def one_output(x: Tensor, residual: Tensor, weight: Tensor, *, eps: float) -> Tensor:
    return forward(x, residual, weight, eps=eps)[0]


@norm.provider("narrow-output")
def narrow_output(x: Tensor, residual: Tensor, weight: Tensor, *, eps: float) -> tuple[Tensor, Tensor]:
    y, h = forward(x, residual, weight, eps=eps)
    return y[:, :-1], h


@norm.provider("changes-x")
def changes_x(x: Tensor, residual: Tensor, weight: Tensor, *, eps: float) -> tuple[Tensor, Tensor]:
    found = forward(x, residual, weight, eps=eps)
    x.data.mul_(1.5)
    return found


@norm.provider("wrong-forward")
def wrong_forward(x: Tensor, residual: Tensor, weight: Tensor, *, eps: float) -> tuple[Tensor, Tensor]:
    y, h = forward(x, residual, weight, eps=eps)
    return y + 1, h  # with the right gradients


SAID = {
    "saves-without-outputs": r"error TypeError: the function given as saves= must return two values, \(outputs, saved\), but",
    "saves-in-place": r"wrong (the function given as saves= )?changed its input x in place; work on a copy",
    "swapped": r"wrong returned shape \(6,\) for gradient of x, expected \(5, 6\)",
    "only-one": r"wrong returned 1 value, expected 2: gradient of x, gradient of weight",
    "none": r"wrong returned NoneType for gradient of weight, expected a tensor",
    "half": r"wrong returned float64 for gradient of weight, expected float32",
    "too-large": r"wrong gradient of x: (every element|\d+ of 30 elements) wrong",
    "second-output-left-out": r"wrong gradient of x: every element wrong",
    "scales-d_y": r"wrong changed its input gradient of y in place",
    "unwritten": r"wrong gradient of x: .* elements? (wrong|NaN|zero)",
    "same-memory": r"wrong correct at the first call, then returned the same memory for two calls",
    "skips-work": r"wrong correct at the first call, then (gradient of x: .* elements? (wrong|NaN|zero)|returned the same)",
    "every-other-call": r"wrong (correct at the first call, then )?gradient of weight: every element wrong",
    "detaches-the-weight": r"wrong gradient of weight: every element zero",
    "no-autograd": r"unsupported output y of its forward function is not differentiable, and the provider has no",
    "half-differentiable": r"unsupported output h of its forward function is not differentiable",
    "one-output": r"wrong returned 1 value, expected 2: y, h",
    "narrow-output": r"wrong returned shape \(5, 5\) and float32 for y, expected shape \(5, 6\) and float32",
    "changes-x": r"wrong changed its input x in place",
}

RIGHT = ["autograd", "kernel", "saves-an-output", "saves-more"]


@pytest.fixture(scope="module", params=["backward", "full"])
def rows(request: pytest.FixtureRequest) -> dict[str, Row]:
    buffers.clear()
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


@pytest.mark.parametrize(("dtype", "mode"), [("float16", "backward"), ("bfloat16", "full"), ("float64", "full")])
def test_every_dtype(dtype: str, mode: str) -> None:
    wide = norm if dtype != "float64" else Operator(
        f"modes-norm-{mode}-float64", norm.axes, norm.inputs, norm.outputs, _exact, scalars={"eps": 1e-6},
        rows="M", gradients=("x", "weight"), dtypes=("float64",),
    )  # fmt: skip
    if dtype == "float64":
        wide.provider("autograd")(_exact)
    assert said(measured(wide, ["autograd"], dtype=dtype, M=9, N=32, mode=mode)["autograd"]) == "ok"
