"""Every output is a tensor with memory of its own, in every call."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from itertools import count
from typing import Any

import torch
from in_process import matrices, measured, said
from torch import Tensor

from kbench.measure.correctness.placement import overlap, overlaps_itself

M, N = 6, 20

double = matrices("memory-double", lambda x: x * 2, rows="M")
sums = matrices("memory-sums", lambda x: (x.cumsum(1), x.cumsum(1) - x), outputs="inclusive exclusive", rows="M")
double.provider("right")(lambda x: x * 2)
double.provider("expanded")(lambda x: (x[:1] * 2).expand_as(x))


@double.provider("two-buffers", factory=True)
def two_buffers(case: Any) -> Callable[[Tensor], Tensor]:
    buffers = [torch.empty(case.M, case.N) for _ in range(2)]
    turns = count()
    return lambda x: torch.mul(x, 2, out=buffers[next(turns) % 2])


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


def test_an_output_stays_in_memory_when_the_function_is_called_again() -> None:
    rows = measured(double, M=M, N=N)
    assert said(rows["right"]) == "ok" and said(rows["two-buffers"]) == TWO_CALLS
    assert said(rows["expanded"]).startswith("wrong returned a tensor whose elements share memory, ")


def test_named_tuples_and_halves_of_one_buffer_are_right() -> None:
    rows = measured(sums, M=M, N=N)
    assert said(rows["named-tuple"]) == said(rows["two-halves"]) == "ok"
    assert said(rows["shifted"]) == (
        "wrong returned exclusive in the memory of inclusive; each output must be a tensor of its own"
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
