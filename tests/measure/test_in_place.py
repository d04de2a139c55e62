"""Providers that change an input or write into a buffer: what they may do, and what is wrong."""

from __future__ import annotations

from in_process import matrices, measured, said
from torch import Tensor

add = matrices(
    "in-place-add",
    lambda x, residual: ((x + residual) * 2, x + residual, (x + residual) * 3),
    "x residual",
    "y h z",
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


@add.provider("does-not-mutate", mutates={"residual": "h"})
def does_not_mutate(x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
    h = x + residual
    return h * 2, h * 3


seen: set[int] = set()


@add.provider("writes-once", out=("h",))
def writes_once(x: Tensor, residual: Tensor, *, h: Tensor) -> tuple[Tensor, Tensor]:
    """Trusts that its buffer still holds the result."""
    new = x + residual
    if id(h) not in seen:
        h.copy_(new)
        seen.add(id(h))
    return new * 2, new * 3


@add.provider("moves-its-buffer", out=("h",))
def moves_its_buffer(x: Tensor, residual: Tensor, *, h: Tensor) -> tuple[Tensor, Tensor]:
    h.data = x + residual
    return h * 2, h * 3


@add.provider("changes-then-raises", mutates={"residual": "h"})
def changes_then_raises(x: Tensor, residual: Tensor) -> None:
    x.zero_()
    residual.zero_()
    raise ValueError("after the damage")


@add.provider("asks-for-gradients")
def asks_for_gradients(x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y, h, z = new_memory(x.requires_grad_(), residual)
    return y.detach(), h.detach(), z.detach()


asked: list[bool] = []


@add.provider("after-it")
def after_it(x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    asked.append(x.requires_grad)
    return new_memory(x, residual)


SAID = {
    "does-not-mutate": "wrong left input residual unchanged; it must hold h after the call",
    "writes-once": "wrong correct at the first call, then h: every element NaN",
    "moves-its-buffer": "wrong gave a buffer that it must fill other memory, as buffer.data = ... does; leave the tensor",
    "changes-then-raises": "error ValueError: after the damage",
}

RIGHT = ["new-memory", "in-place", "asks-for-gradients", "after-it"]


def test_what_is_declared_is_right_and_what_is_wrong_is_said() -> None:
    rows = measured(add, M=5, N=6)
    for provider, reason in SAID.items():
        assert said(rows[provider]).startswith(reason)
    for provider in RIGHT:
        assert rows[provider].status == "ok" and rows[provider].ms and rows[provider].deterministic
    assert asked and not any(asked), "a gradient that one provider asks for slows down no other"
