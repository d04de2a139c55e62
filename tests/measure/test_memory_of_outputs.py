"""Every output is a tensor with memory of its own, in every call."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
import torch
from in_process import checked_edges, measured, said
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor as Declared
from kbench.measure.correctness.placement import overlap, overlaps_itself

M, N = 6, 20

double = Operator(
    "memory-double",
    axes=("M", "N"),
    inputs={"x": Declared("M", "N")},
    outputs={"y": Declared("M", "N")},
    reference=lambda x: x * 2,
    rows="M",
    gradients=("x",),
)
sums = Operator(
    "memory-sums",
    axes=("M", "N"),
    inputs={"x": Declared("M", "N")},
    outputs={"inclusive": Declared("M", "N"), "exclusive": Declared("M", "N")},
    reference=lambda x: (x.cumsum(1), x.cumsum(1) - x),
    rows="M",
)
windows = Operator(
    "memory-windows",
    axes=("M", "N"),
    inputs={"x": Declared("M+N-1")},
    outputs={"y": Declared("M", "N")},
    reference=lambda x, *, N: (2 * x).unfold(0, N, 1),
)
double.provider("right")(lambda x: x * 2)
windows.provider("right", factory=True)(lambda case: lambda x: (2 * x).unfold(0, case.N, 1).contiguous())
windows.provider("views", factory=True)(lambda case: lambda x: (2 * x).unfold(0, case.N, 1))


class Lazy(list[Tensor]):
    """A list that computes its values when it is read."""

    def __init__(self, compute: Callable[[], list[Tensor]]) -> None:
        super().__init__()
        self.compute = compute

    def __len__(self) -> int:
        return len(self.compute())

    def __iter__(self) -> Any:
        return iter(self.compute())


double.provider("lazy")(lambda x: Lazy(lambda: [x * 2]))


@double.backward("lazy")
def lazy_gradient(dy: Tensor, x: Tensor) -> Lazy:
    return Lazy(lambda: [dy * 2])


double.full("lazy")(lambda dy, x: Lazy(lambda: [x * 2, dy * 2]))


@double.provider("two-buffers", factory=True)
def two_buffers(case: Any) -> Callable[[Tensor], Tensor]:
    buffers = [torch.empty(case.M, case.N) for _ in range(2)]
    turns = count()
    return lambda x: torch.mul(x, 2, out=buffers[next(turns) % 2])


@double.provider("moving-buffer", factory=True)
def moving_buffer(case: Any) -> Callable[[Tensor], Tensor]:
    memory, turns = torch.empty(2 * case.M * case.N), count()

    def call(x: Tensor) -> Tensor:
        first = next(turns) % x.numel() if x.numel() else 0
        return torch.mul(x, 2, out=memory[first : first + x.numel()].view(x.shape))

    return call


@double.provider("changes-x-in-every-second-call", factory=True)
def changes_later(case: Any) -> Callable[[Tensor], Tensor]:
    turns = count()

    def call(x: Tensor) -> Tensor:
        y = x * 2
        if next(turns) % 2:
            x.add_(1)
        return y

    return call


double.provider("negated-later")(lambda x: torch._neg_view(x * -2))
Named = namedtuple("Named", ["inclusive", "exclusive"])


@sums.provider("named-tuple")
def named(x: Tensor) -> Named:
    found = x.cumsum(1)
    return Named(found, found - x)


@sums.provider("two-halves")
def halves(x: Tensor) -> tuple[Tensor, Tensor]:
    memory = torch.cat((x.cumsum(1), x.cumsum(1) - x), 1)
    return memory[:, : x.shape[1]], memory[:, x.shape[1] :]


@sums.provider("shifted")
def shifted(x: Tensor) -> tuple[Tensor, Tensor]:
    memory = torch.zeros(x.shape[0], x.shape[1] + 1)
    torch.cumsum(x, 1, out=memory[:, 1:])
    return memory[:, 1:], memory[:, :-1]


LATER = "correct at the first call, then "
TWO_CALLS = f"wrong {LATER}returned the same memory for two calls: the later result overwrites the earlier one"


@pytest.mark.parametrize(
    ("provider", "reason"),
    [
        ("lazy", "wrong returned 0 values, expected 1: y"),
        ("two-buffers", TWO_CALLS),
        ("moving-buffer", TWO_CALLS),
        ("negated-later", "wrong returned a tensor that is negated when it is read; return x.resolve_neg()"),
    ],
)
def test_an_output_is_in_memory_when_the_call_returns_and_stays_there(provider: str, reason: str) -> None:
    assert said(measured(double, ["right", provider], M=M, N=N)[provider]) == reason


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("backward", "returned 0 values, expected 1: gradient of x"),
        ("full", "returned Lazy, expected (outputs, gradients)"),
    ],
)
def test_gradients_too(mode: str, reason: str) -> None:
    assert said(measured(double, ["right", "lazy"], M=M, N=N, mode=mode)["lazy"]) == f"wrong {reason}"


def test_named_tuples_and_halves_of_one_buffer_are_right() -> None:
    rows = measured(sums, M=M, N=N)
    assert said(rows["named-tuple"]) == said(rows["two-halves"]) == "ok"
    assert said(rows["shifted"]) == (
        "wrong returned exclusive in the memory of inclusive; each output must be a tensor of its own"
    )


def test_an_output_has_memory_for_every_element() -> None:
    rows = measured(windows, M=M, N=N)
    assert said(rows["right"]) == "ok"
    assert said(rows["views"]).startswith(
        "wrong returned a tensor whose elements share memory, as those of expand() do"
    )


def test_check_looks_at_the_inputs_after_every_call() -> None:
    assert checked_edges(double, "changes-x-in-every-second-call", M=M, N=N)["random"] == (
        "wrong changed its input x in place; work on a copy, or declare it with mutates= (when called again)"
    )


def test_which_tensors_share_memory() -> None:
    x = torch.zeros(10, 4)
    assert overlap(x, x) and overlap(x[2:5], x[4:]) and overlap(x[:, 1], x[3])
    assert not overlap(x[:5], x[5:]) and not overlap(x[:, :2], x[:, 2:]) and not overlap(x, torch.zeros(10, 4))
    assert not overlap(x[:0], x)
    assert overlap(x, x.view(torch.int16)) and not overlap(x[::2], x[1::2].view(torch.int16))
    for right in (x, x.t(), x[:, 1:3], x[::3], x[:0], x[0, 0], x.as_strided((5, 2), (3, 2))):
        assert not overlaps_itself(right)
    for shared in (x[:1].expand(10, 4), x.view(-1).unfold(0, 4, 3), x.as_strided((3, 3), (2, 1))):
        assert overlaps_itself(shared)
