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
    tolerance=4,
)


def right(x: Any, w: Any, *, eps: float) -> Any:
    return x * w + eps


@scaled.provider("one-input")
def one_input(x: Any, *, eps: float) -> Any: ...


@scaled.provider("no-buffer", out=["y"])
def no_buffer(x: Any, w: Any, *, eps: float) -> Any: ...


@scaled.provider("no-value")
def no_value(x: Any, w: Any, *, eps: float, block: int) -> Any: ...


@scaled.provider("fails-inside")
def fails_inside(x: Any, w: Any, *, eps: float) -> Any:
    return one_input(x, w, eps=eps)  # type: ignore[call-arg]


scaled.provider("backward")(right)


@scaled.backward("backward")
def kernel(d_y: Any) -> Any: ...


scaled.provider("full")(right)


@scaled.full("full")
def both(d_y: Any) -> Any: ...


FORWARD = {
    "one-input": (one_input, "kbench calls it as one_input(x, w, eps=...)"),
    "no-buffer": (no_buffer, "kbench calls it as no_buffer(x, w, eps=..., y=...)"),
    "no-value": (no_value, "give block a default, or values in the config"),
}


@pytest.fixture(scope="module")
def reasons() -> dict[str, str]:
    """The reasons of all rows in mode forward."""
    return {name: row.reason for name, row in measured(scaled, [*FORWARD, "fails-inside"], N=4).items()}


@pytest.mark.parametrize("name", FORWARD)
def test_the_reason_names_the_function_and_the_arguments_that_it_gets(reasons: dict[str, str], name: str) -> None:
    function, advice = FORWARD[name]
    place = f"test_expected_arguments.py:{function.__code__.co_firstlineno}"
    assert reasons[name].startswith(f"{function.__name__}: ") and reasons[name].endswith(f"{place}; {advice}")


@pytest.mark.parametrize(("name", "mode", "function"), [("backward", "backward", kernel), ("full", "full", both)])
def test_a_backward_kernel_is_named_with_its_own_place(name: str, mode: str, function: Any) -> None:
    reason = measured(scaled, [name], N=4, mode=mode)[name].reason
    place = f"test_expected_arguments.py:{function.__code__.co_firstlineno}"
    assert f"{place}; " in reason and reason.endswith(f"kbench calls it as {function.__name__}(d_y, x, w)")


def test_a_wrong_call_inside_of_a_provider_is_its_own(reasons: dict[str, str]) -> None:
    reason = reasons["fails-inside"]
    assert "one_input() takes 1 positional argument" in reason and "kbench calls" not in reason
