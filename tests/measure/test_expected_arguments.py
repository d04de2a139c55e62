"""What a row says if a function of a provider does not take the arguments that kbench gives it."""

from __future__ import annotations

from typing import Any

import pytest
from in_process import measured

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor

scaled = Operator(
    "wrong-arguments",
    axes=("N",),
    inputs={"x": Tensor("N"), "w": Tensor("N")},
    outputs={"y": Tensor("N")},
    scalars={"eps": 0.5},
    reference=lambda x, w, *, eps: x * w + eps,
    gradients=("x",),
)


@scaled.provider("one-input")
def one_input(x: Any, *, eps: float) -> Any: ...


@scaled.provider("no-buffer", out=["y"])
def no_buffer(x: Any, w: Any, *, eps: float) -> Any: ...


@scaled.provider("no-value")
def no_value(x: Any, w: Any, *, eps: float, block: int) -> Any: ...


for name in ("backward", "full"):
    scaled.provider(name)(lambda x, w, *, eps: x * w + eps)


@scaled.backward("backward")
def kernel(d_y: Any) -> Any: ...


@scaled.full("full")
def both(d_y: Any) -> Any: ...


@pytest.mark.parametrize(
    ("provider", "mode", "function", "advice"),
    [
        ("one-input", "forward", one_input, "kbench calls it as one_input(x, w, eps=...)"),
        ("no-buffer", "forward", no_buffer, "kbench calls it as no_buffer(x, w, eps=..., y=...)"),
        ("no-value", "forward", no_value, "give block a default, or values in the config"),
        ("backward", "backward", kernel, "kbench calls it as kernel(d_y, x, w)"),
        ("full", "full", both, "kbench calls it as both(d_y, x, w)"),
    ],
)
def test_the_reason_names_the_function_its_place_and_what_to_do(
    provider: str, mode: str, function: Any, advice: str
) -> None:
    row = measured(scaled, [provider], N=4, mode=mode)[provider]
    assert row.status.value == "error" and row.reason.startswith(f"{function.__name__}: ")
    assert row.reason.endswith(f" at test_expected_arguments.py:{function.__code__.co_firstlineno}; {advice}")


class Scaled:
    def __call__(self, x: Any, w: Any, *, eps: float) -> Any:
        return x * w + eps


def test_the_reason_says_how_to_register_a_class_and_a_function_that_builds_one() -> None:
    scaled.provider("object")(Scaled())
    scaled.provider("class")(Scaled)
    scaled.provider("builder")(lambda x, w, *, eps: Scaled())
    rows = measured(scaled, ["object", "class", "builder"], N=4)
    assert rows["object"].status.value == "ok"
    assert rows["class"].status.value == "error" and "Scaled()" in rows["class"].reason
    assert rows["builder"].status.value == "wrong" and "factory=True" in rows["builder"].reason
