"""A call may not write between the rows of a strided input: a kernel that stores without a mask does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from in_process import checked_edges, matrices
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor as Declared
from kbench.measure.correctness.call import stage_of
from kbench.measure.correctness.check import run_checked
from kbench.measure.correctness.definition import Definition
from kbench.measure.correctness.expected import Expected
from kbench.measure.correctness.gaps import marked_inputs
from kbench.measure.machine.device import Device

FAULT = "wrote into memory between the rows of its input x, which may belong to others; mask the stores"


def wrong(operator: Operator, provider: str, x: Tensor) -> str | None:
    definition = Definition(operator, operator.case(str(x.dtype).removeprefix("torch."), M=x.shape[0], N=x.shape[1]))
    expected = Expected(definition, [x.clone()])
    [marked] = marked_inputs(["x"], [x])
    stage = stage_of(definition, operator.providers[provider], {})
    return run_checked(expected, stage, [marked.tensor], Device()).wrong or marked.fault()


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


@pytest.mark.parametrize("provider", ["unmasked", "elsewhere"])
def test_a_write_between_the_rows_is_wrong(doubled: Operator, provider: str) -> None:
    assert wrong(doubled, provider, torch.randn(6, 8)) is None
    assert wrong(doubled, provider, torch.randn(6, 8)[:, :-3]) == FAULT


def test_kbench_check_looks_there(doubled: Operator) -> None:
    found = checked_edges(doubled, "elsewhere", dtype="float32", M=5, N=24)
    assert (found["random"], found["strided rows"]) == ("checked", f"wrong {FAULT}")


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
    marked = marked_inputs([str(at) for at in range(len(tensors))], tensors)
    for x, each in zip(tensors, marked, strict=True):
        y = each.tensor
        assert torch.equal(x, y) and x.stride() == y.stride() and x.dtype == y.dtype and each.fault() is None
        assert x.data_ptr() % 512 == y.data_ptr() % 512
    assert [x is each.tensor for x, each in zip(tensors, marked, strict=True)] == [False] * 4 + [True] * 4


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float8_e4m3fn])
def test_marks_of_every_dtype(dtype: torch.dtype) -> None:
    [marked] = marked_inputs(["x"], [torch.zeros(4, 6, dtype=torch.uint8).to(dtype)[:, 1:4]])
    assert marked.fault() is None and not marked.tensor.to(torch.float64).any()
    torch.empty(0, dtype=torch.uint8).set_(marked.tensor.untyped_storage()).zero_()
    assert "between the rows" in str(marked.fault())
