"""Every output is a tensor with memory of its own, in every call. No call writes around an input, as a kernel does that stores
without a mask."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
import torch
from in_process import checked_edges, checked_together, matrices, measured, said
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor as Declared
from kbench.measure.correctness.call import Preparer
from kbench.measure.correctness.check import run_checked
from kbench.measure.correctness.definition import Definition
from kbench.measure.correctness.expected import Expected
from kbench.measure.correctness.memory import marked_inputs, overlap, overlaps_itself
from kbench.measure.machine.device import Device

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


def test_two_outputs_share_no_memory() -> None:
    assert said(measured(sums, M=M, N=N)["shifted"]) == (
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


# -- writes around an input

BETWEEN = "wrote into memory between the rows of its input x, which may belong to others; mask the stores"


def wrong(operator: Operator, provider: str, x: Tensor) -> str | None:
    definition = Definition(operator, operator.case(str(x.dtype).removeprefix("torch."), M=x.shape[0], N=x.shape[1]))
    expected = Expected(definition, [x.clone()])
    marked, [fault] = marked_inputs(["x"], [x])
    preparer = Preparer(definition, operator.providers[provider], {})
    return run_checked(expected, preparer, marked, Device()).wrong or fault()


@pytest.fixture
def doubled(no_operators: None) -> Operator:
    operator = matrices("doubled", lambda x: x * 2)
    operator.provider("new-memory")(lambda x: x * 2)
    operator.provider("in-place", mutates={"x": "y"})(lambda x: x.mul_(2))

    @operator.provider("unmasked", mutates={"x": "y"})
    def unmasked(x: Tensor) -> None:
        """Writes zeros behind each row, as a kernel does that loads with a mask and stores without one."""
        x.mul_(2)
        if x.stride(0) > x.shape[1]:
            x.as_strided((x.shape[0] - 1, 1), x.stride(), x.storage_offset() + x.shape[1]).zero_()

    @operator.provider("elsewhere")
    def elsewhere(x: Tensor) -> Tensor:
        if x.stride(0) > x.shape[1]:
            x.as_strided((1, 1), (1, 1), x.storage_offset() + x.shape[1]).fill_(7)
        return x * 2

    return operator


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "memory", [lambda x: x[:, 1:-2], lambda x: x[::2], lambda x: x.t(), lambda x: x[:1], lambda x: x]
)
def test_only_what_is_between_the_rows_must_stay(
    doubled: Operator, memory: Callable[[Tensor], Tensor], dtype: torch.dtype
) -> None:
    for provider in ("new-memory", "in-place"):
        assert wrong(doubled, provider, memory(torch.randn(6, 8).to(dtype))) is None


def test_a_write_between_the_rows_is_wrong(doubled: Operator) -> None:
    reasons = checked_together(doubled, "unmasked", "elsewhere", dtype="float32", M=5, N=24)
    for by_edge in reasons.values():
        assert (by_edge["random"], by_edge["strided rows"]) == ("checked", f"wrong {BETWEEN}")


@pytest.mark.parametrize(("first", "where"), [(0, "behind the end"), (-1, "before the beginning")])
def test_a_write_next_to_an_input_is_wrong(no_operators: None, first: int, where: str) -> None:
    """As by a kernel that takes blocks of 16 elements and stores the last one without a mask."""
    row = Operator(
        "row", axes=("N",), inputs={"x": Declared("N")}, outputs={"y": Declared("N")}, reference=lambda x: 2 * x
    )

    @row.provider("whole-blocks", mutates={"x": "y"})
    def whole_blocks(x: Tensor) -> None:
        count = -(-(x.numel() - first) // 16) * 16
        x.as_strided((count,), (1,), x.storage_offset() + first).mul_(2)

    found = checked_edges(row, "whole-blocks", N=47)
    fault = f"wrong wrote into memory {where} of its input x, which may belong to others; mask the stores"
    assert found["random"] == fault


def test_marks_change_neither_values_nor_layout_nor_alignment() -> None:
    """Parts of one tensor, empty and expanded tensors stay where they are."""
    wide, parts = torch.randn(6, 40), torch.randn(4, 10)
    tensors = [wide, wide.clone()[1:, 3:], wide.t().clone().t(), torch.tensor(2.5)]
    tensors += [wide[:0].clone(), *parts.unbind(0)[:2], torch.randn(1, 5).expand(4, 5)]
    marked, faults = marked_inputs([str(at) for at in range(len(tensors))], tensors)
    for x, y in zip(tensors, marked, strict=True):
        assert torch.equal(x, y) and x.stride() == y.stride() and x.dtype == y.dtype
        assert x.data_ptr() % 512 == y.data_ptr() % 512
    assert [x is y for x, y in zip(tensors, marked, strict=True)] == [False] * 4 + [True] * 4
    assert [fault() for fault in faults] == [None] * 4
