"""How an exception is recognised that reports too little memory, and what becomes of the memory that it holds."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch

from kbench.measure.machine.device import Device, drop_locals, out_of_memory


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes"),
        RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
        RuntimeError("Triton Error [CUDA]: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ],
)
def test_memory_has_run_out(error: BaseException) -> None:
    assert out_of_memory(error)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("out of resource: shared memory, Required: 264192, Hardware limit: 232448"),
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        ValueError("out of memory"),
    ],
)
def test_other_failures(error: BaseException) -> None:
    assert not out_of_memory(error)


def test_memory_that_is_too_large_to_be_poisoned_is_left_as_it_is() -> None:
    """The allocator of a host raises a plain RuntimeError."""
    with pytest.raises(RuntimeError):
        torch.full((2**50,), 1.0)
    Device().poison((2**50,), torch.float32)


class Held:
    """Stands for a large tensor."""


def test_an_exception_lets_go_of_what_its_functions_held() -> None:
    held: list[Any] = []

    def inner() -> None:
        tensor = Held()
        held.append(weakref.ref(tensor))
        raise KeyError("inner")

    def outer() -> None:
        tensor = Held()
        held.append(weakref.ref(tensor))
        try:
            inner()
        except KeyError as error:
            raise RuntimeError("outer") from error

    try:
        outer()
    except RuntimeError as error:
        assert all(reference() for reference in held) and len(held) == 2
        drop_locals(error)
        assert not any(reference() for reference in held)
