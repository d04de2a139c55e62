"""Modes backward and full of operators with gradients of one shape, unused inputs, no dimension, or outputs in place."""

from __future__ import annotations

import pytest
import torch
from in_process import matrices, measured, said

from kbench.contract.operator import Operator
from kbench.contract.registry import operator
from kbench.contract.tensor import Tensor as Declared

product = matrices("modes-product", lambda a, b: a * b, "a b", gradients=("a", "b"))
product.provider("right")(lambda a, b: a * b)
product.provider("swapped")(lambda a, b: a * b)
product.backward("swapped")(lambda dy, a, b: (dy * a, dy * b))
product.provider("one-tensor")(lambda a, b: a * b)
product.backward("one-tensor")(lambda dy, a, b: (dy * b,) * 2)


@pytest.mark.parametrize("mode", ["backward", "full"])
def test_gradients_of_the_same_shape_that_are_swapped_are_wrong(mode: str) -> None:
    found = measured(product, M=4, N=8, mode=mode)
    assert said(found["right"]) == "ok"
    assert said(found["swapped"]).startswith("wrong gradient of a: every element wrong; first at [0, 0]")
    assert said(found["one-tensor"]).startswith("wrong gradient of b: every element wrong; first at [0, 0]")


total = matrices(
    "modes-sum",
    lambda x, b, *, beta: x + beta * b if beta else x * 1,
    "x b",
    scalars={"beta": 1.0},
    gradients=("x", "b"),
    rows="M",
)
total.provider("autograd")(lambda x, b, *, beta: x + beta * b if beta else x * 1)
total.provider("kernel")(lambda x, b, *, beta: x + beta * b)
total.backward("kernel")(lambda dy, x, b, *, beta: (dy, dy * beta))


@pytest.mark.parametrize("mode", ["backward", "full"])
@pytest.mark.parametrize("beta", [0.5, 0.0])
def test_a_gradient_may_be_the_one_that_came_in(mode: str, beta: float) -> None:
    """Autograd returns the gradient of y as that of x, without a copy. An input that is not used has gradient zero."""
    found = measured(total, M=4, N=8, mode=mode, beta=beta)
    assert [row.status for row in found.values()] == ["ok", "ok"]


mean = Operator(
    "modes-mean",
    axes=("N",),
    inputs={"x": Declared("N"), "factor": Declared()},
    outputs={"y": Declared()},
    reference=lambda x, factor: (x * factor).mean(),
    gradients=("x", "factor"),
)
mean.provider("right")(lambda x, factor: (x * factor).mean())
mean.provider("sum")(lambda x, factor: (x * factor).sum())


@pytest.mark.parametrize(
    ("mode", "wrong"),
    [("forward", "every element wrong; "), ("backward", "gradient of x: every element wrong; first at [0]")],
)
def test_values_without_a_dimension(mode: str, wrong: str) -> None:
    rows = measured(mean, N=33, mode=mode)
    assert said(rows["right"]) == "ok" and said(rows["sum"]).startswith(f"wrong {wrong}")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mutates", "out"])
def test_a_kernel_beside_an_in_place_forward_gives_gradients(name: str) -> None:
    """In mode backward kbench does not call the forward function, unless the kernel saves its outputs. In mode full a function
    that saves is called in its place."""
    twice = Operator(
        f"modes-twice-{name}",
        axes=("N",),
        inputs={"x": Declared("N")},
        outputs={"y": Declared("N")},
        reference=lambda x: x * 2,
        gradients=("x",),
    )
    ways = {"mutates": {"x": "y"}} if name == "mutates" else {"out": ("y",)}
    saved: dict[str, object] = {
        "nothing": None,
        "output": ["y"],
        "function": lambda x: (x * 2, None),
        "in-place": lambda x: (x.mul_(2), None),
    }
    for provider in ("no-kernel", *saved):
        twice.provider(provider, **ways)(lambda x, y=None: torch.mul(x, 2, out=x if y is None else y))  # type: ignore[arg-type]
    for provider, saves in saved.items():
        twice.backward(provider, saves=saves)(lambda dy, x, *saved: dy * 2)  # type: ignore[arg-type]
    assert said(measured(twice, ["nothing"], N=8, mode="forward")["nothing"]) == "ok"

    refused = "unsupported its forward function works in place or writes into buffers, so kbench computes no gradients with it"
    remedy = f"{refused}; return new tensors, or register "
    saving = remedy + "its backward kernel with a function as saves="
    backward, full = (measured(twice, N=8, mode=mode) for mode in ("backward", "full"))
    for mode in (backward, full):
        assert said(mode["function"]) == "ok" and said(mode["output"]) == saving
    assert said(backward["nothing"]) == "ok" and said(full["nothing"]) == saving
    assert said(backward["no-kernel"]) == remedy + "a backward kernel"
    assert said(full["no-kernel"]) == remedy + "a function for both passes (full)"
    assert said(full["in-place"]).startswith("wrong changed its input x in place")


@pytest.mark.parametrize("length", [1, 3])
def test_softmax_of_many_short_rows_has_gradients_that_are_right(length: int) -> None:
    """Where one probability is nearly 1, its rounding decides what is left of the gradient."""
    found = measured(operator("softmax"), ["torch-native"], dtype="bfloat16", mode="backward", M=4096, N=length)
    assert said(found["torch-native"]) == "ok"
