"""Providers that change an input or write into a buffer: what they may do, and what is wrong."""

from __future__ import annotations

import re

import pytest
import torch
from in_process import measured, said
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor as Declared
from kbench.results.row import Row

MATRIX = Declared("M", "N")

add = Operator(
    "in-place-add",
    axes=("M", "N"),
    inputs={"x": MATRIX, "residual": MATRIX},
    outputs={"y": MATRIX, "h": MATRIX, "z": MATRIX},
    reference=lambda x, residual: ((x + residual) * 2, x + residual, (x + residual) * 3),
    rows="M",
)


@add.provider("new-memory")
def new_memory(x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    h = x + residual
    return h * 2, h, h * 3


@add.provider("in-place", mutates={"residual": "h"})
def in_place(x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
    residual.add_(x)
    return residual * 2, residual * 3


@add.provider("buffers", out=("y", "h", "z"))
def buffers(x: Tensor, residual: Tensor, *, y: Tensor, h: Tensor, z: Tensor) -> None:
    torch.add(x, residual, out=h)
    torch.mul(h, 2, out=y)
    torch.mul(h, 3, out=z)


@add.provider("one-buffer", out=("h",))
def one_buffer(x: Tensor, residual: Tensor, *, h: Tensor) -> tuple[Tensor, Tensor]:
    torch.add(x, residual, out=h)
    return h * 2, h * 3


@add.provider("both", out=("z",), mutates={"residual": "h"})
def both(x: Tensor, residual: Tensor, *, z: Tensor) -> Tensor:
    torch.mul(residual.add_(x), 3, out=z)
    return residual * 2


@add.provider("returns-its-buffers", out=("y", "h", "z"))
def returns_its_buffers(x: Tensor, residual: Tensor, *, y: Tensor, h: Tensor, z: Tensor) -> tuple[Tensor, ...]:
    buffers(x, residual, y=y, h=h, z=z)
    return h, y, z


@add.provider("undeclared")
def undeclared(x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    found = new_memory(x, residual)
    residual.add_(x)
    return found


@add.provider("undeclared-other", mutates={"residual": "h"})
def undeclared_other(x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
    found = in_place(x, residual)
    x.zero_()
    return found


@add.provider("does-not-mutate", mutates={"residual": "h"})
def does_not_mutate(x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
    h = x + residual
    return h * 2, h * 3


@add.provider("mutates-wrongly", mutates={"residual": "h"})
def mutates_wrongly(x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
    y, _, z = new_memory(x, residual)
    residual.sub_(x)
    return y, z


@add.provider("returns-the-changed", mutates={"residual": "h"})
def returns_the_changed(x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y, z = in_place(x, residual)
    return y, residual, z


@add.provider("returns-too-little", mutates={"residual": "h"})
def returns_too_little(x: Tensor, residual: Tensor) -> Tensor:
    return in_place(x, residual)[0]


@add.provider("returns-its-input", mutates={"residual": "h"})
def returns_its_input(x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
    residual.add_(x)
    return x, residual * 3


@add.provider("second-wrong")
def second_wrong(x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y, h, z = new_memory(x, residual)
    return y, h * 1.01, z


@add.provider("swapped")
def swapped(x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y, h, z = new_memory(x, residual)
    return z, h, y


@add.provider("tail-unwritten", out=("h",))
def tail_unwritten(x: Tensor, residual: Tensor, *, h: Tensor) -> tuple[Tensor, Tensor]:
    new = x + residual
    h[:, :-1] = new[:, :-1]
    return new * 2, new * 3


seen: set[int] = set()


@add.provider("writes-once", out=("h",))
def writes_once(x: Tensor, residual: Tensor, *, h: Tensor) -> tuple[Tensor, Tensor]:
    """Trusts that its buffer still holds the result."""
    new = x + residual
    if id(h) not in seen:
        h.copy_(new)
        seen.add(id(h))
    return new * 2, new * 3


@add.provider("writes-elsewhere", out=("y", "h", "z"))
def writes_elsewhere(x: Tensor, residual: Tensor, *, y: Tensor, h: Tensor, z: Tensor) -> tuple[Tensor, ...]:
    return new_memory(x, residual)


@add.provider("returns-a-buffer-too", out=("h",))
def returns_a_buffer_too(x: Tensor, residual: Tensor, *, h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y, z = one_buffer(x, residual, h=h)
    return y, h, z


@add.provider("resizes-its-buffer", out=("h",))
def resizes_its_buffer(x: Tensor, residual: Tensor, *, h: Tensor) -> tuple[Tensor, Tensor]:
    h.resize_(1)
    return x, residual


@add.provider("moves-its-buffer", out=("h",))
def moves_its_buffer(x: Tensor, residual: Tensor, *, h: Tensor) -> tuple[Tensor, Tensor]:
    h.data = x + residual
    return h * 2, h * 3


@add.provider("moves-what-it-changes", mutates={"residual": "h"})
def moves_what_it_changes(x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
    residual.data = x + residual
    return residual * 2, residual * 3


@add.provider("changes-then-raises", mutates={"residual": "h"})
def changes_then_raises(x: Tensor, residual: Tensor) -> None:
    x.zero_()
    residual.zero_()
    raise ValueError("after the damage")


@add.provider("resizes-its-input")
def resizes_its_input(x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    found = new_memory(x, residual)
    x.resize_(1)
    return found


@add.provider("replaces-its-input")
def replaces_its_input(x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    found = new_memory(x, residual)
    residual.set_(torch.zeros(2, 3))
    return found


@add.provider("moves-its-input")
def moves_its_input(x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    x.data = x.clone()
    return new_memory(x, residual)


@add.provider("sparse")
def sparse(x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y, h, z = new_memory(x, residual)
    return y, h.to_sparse(), z


@add.provider("asks-for-gradients")
def asks_for_gradients(x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y, h, z = new_memory(x.requires_grad_(), residual)
    return y.detach(), h.detach(), z.detach()


asked: list[bool] = []


@add.provider("after-it")
def after_it(x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    asked.append(x.requires_grad)
    return new_memory(x, residual)


@add.provider("last")
def after_all_of_them(x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return new_memory(x, residual)


PLACED = "do not return what a buffer or an input holds: h"

SAID = {
    "undeclared": "wrong changed its input residual in place; work on a copy, or declare it with mutates=",
    "undeclared-other": "wrong changed its input x in place",
    "does-not-mutate": "wrong left input residual unchanged; it must hold h after the call",
    "mutates-wrongly": "wrong h: every element wrong",
    "returns-the-changed": f"wrong returned 3 values, expected 2: y, z; {PLACED}",
    "returns-too-little": f"wrong returned 1 value, expected 2: y, z; {PLACED}",
    "returns-its-input": "wrong returned one of its inputs, or a view of one for y; it must return a new tensor",
    "second-wrong": "wrong h: every element wrong",
    "swapped": "wrong y: every element wrong",
    "tail-unwritten": "wrong h: 5 of 30 elements NaN, all in column 5; first at ",
    "writes-once": "wrong correct at the first call, then h: every element NaN",
    "writes-elsewhere": "wrong returned 3 values, expected none; do not return what a buffer or an input holds: y, h, z",
    "returns-a-buffer-too": f"wrong returned 3 values, expected 2: y, z; {PLACED}",
    "resizes-its-buffer": r"wrong returned shape \(1,\) for h, expected \(5, 6\)",
    "resizes-its-input": "wrong changed its input x in place",
    "replaces-its-input": "wrong changed its input residual in place",
    "moves-its-input": "wrong gave its input x other memory, as x.data = ... does; leave the tensor where it is",
    "moves-its-buffer": "wrong gave a buffer that it must fill other memory, as buffer.data = ... does; leave the tensor",
    "moves-what-it-changes": "wrong gave its input residual other memory, as residual.data = ... does; leave the tensor",
    "sparse": "wrong returned a tensor with layout sparse_coo for h, expected a dense one",
    "changes-then-raises": "error ValueError: after the damage",
}

RIGHT = [
    "new-memory",
    "in-place",
    "buffers",
    "one-buffer",
    "both",
    "returns-its-buffers",
    "asks-for-gradients",
    "after-it",
    "last",
]


@pytest.fixture(scope="module")
def rows() -> dict[str, Row]:
    return measured(add, M=5, N=6)


@pytest.mark.slow
@pytest.mark.parametrize("provider", SAID)
def test_what_is_wrong_is_said(rows: dict[str, Row], provider: str) -> None:
    assert re.match(SAID[provider], said(rows[provider])), said(rows[provider])


@pytest.mark.parametrize("provider", RIGHT)
def test_what_is_declared_is_right(rows: dict[str, Row], provider: str) -> None:
    assert rows[provider].status == "ok"
    assert rows[provider].ms and rows[provider].deterministic


def test_a_gradient_that_one_provider_asks_for_slows_down_no_other(rows: dict[str, Row]) -> None:
    assert asked and not any(asked)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int32", "float8_e4m3fn"])
def test_a_buffer_of_any_dtype_that_is_left_unwritten_is_wrong(dtype: str) -> None:
    """Of a bool, every value is right somewhere: the buffer holds another one before the second call."""
    whole = torch.full((8,), 1)
    most = Operator(
        f"in-place-most-{dtype}",
        axes=("N",),
        inputs={"x": Declared("N")},
        outputs={"y": Declared("N", dtype=dtype)},
        reference=lambda x: torch.ones_like(x).to(getattr(torch, dtype)),
    )

    @most.provider("all", out=("y",))
    def _all(x: Tensor, *, y: Tensor) -> None:
        y.copy_(whole)

    @most.provider("half", out=("y",))
    def _half(x: Tensor, *, y: Tensor) -> None:
        y[:4].copy_(whole[:4])

    found = measured(most, N=8)
    assert said(found["all"]) == "ok"
    assert "4 of 8 elements" in said(found["half"]) and "first at [4]" in said(found["half"])
