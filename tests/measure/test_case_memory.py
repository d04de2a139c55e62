"""A case leaves no tensors behind: the memory of the next case is free before Python collects garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import torch
from in_process import case_run, matrices
from torch import Tensor

import kbench
from kbench.measure.correctness.check import compared
from kbench.measure.correctness.definition import Definition
from kbench.measure.correctness.expected import Expected


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def large_tensors() -> list[tuple[int, ...]]:
    return [tuple(x.shape) for x in gc.get_objects() if type(x) is Tensor and x.numel() >= 1000]


def test_no_tensor_of_a_timed_case_is_left(no_collection: None) -> None:
    before = large_tensors()
    run = case_run(
        kbench.operator("rmsnorm"), ["torch-native", "torch-eager"], dtype="float32", M=8, N=1000, mode="full"
    )
    statuses = [row.status.value for row in run.run()]
    del run
    assert set(statuses) == {"ok"}
    assert large_tensors() == before


def test_no_tensor_of_providers_that_fail_is_left(no_collection: None) -> None:
    operator = matrices("doubled", lambda x: x * 2, rows="M")
    operator.provider("right")(lambda x: x * 2)
    operator.provider("wrong")(lambda x: x * 3)

    @operator.provider("raises")
    def raises(x: Tensor) -> Tensor:
        y = torch.ones_like(x)
        error = RuntimeError(f"not for {tuple(y.shape)}")
        raise error  # it holds this frame, which holds it

    before = large_tensors()
    run = case_run(operator, ["right", "wrong", "raises"], dtype="float32", M=8, N=1000)
    statuses = [row.status.value for row in run.run()]
    del run
    assert statuses[:3] == ["ok", "wrong", "error"]
    assert large_tensors() == before


def test_few_tensors_are_held_while_the_reference_of_a_large_case_is_called() -> None:
    held_bytes = []

    def reference(x: Tensor) -> Tensor:
        large = [x.untyped_storage() for x in gc.get_objects() if type(x) is Tensor and x.numel() == 100_000]
        held_bytes.append(sum({x.data_ptr(): x.nbytes() for x in large}.values()))
        return x * 2

    operator, x = matrices("held", reference), torch.rand(100, 1000)
    expected = Expected(Definition(operator, operator.case("float32", M=100, N=1000)), [x], keep_bytes=0)
    assert not expected.same_as(expected.of([x + 1])) and not compared(expected, [x * 2]).wrong
    assert max(held_bytes) <= 9 * 400_000  # float32 in three places, and float64 in three
