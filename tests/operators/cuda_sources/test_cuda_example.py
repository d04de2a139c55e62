"""The CUDA kernel of the examples, on a GPU: three inputs, two outputs, in place and into a buffer. `test_cuda_source.py` has
what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from common import ROOT
from torch import Tensor

import kbench
from kbench.contract.provider import Provider
from kbench.contract.registry import operator
from kbench.measure.correctness.call import preparer_of
from kbench.measure.correctness.check import run_checked
from kbench.measure.correctness.definition import Definition
from kbench.measure.correctness.expected import Expected
from kbench.measure.machine.device import Device

pytestmark = pytest.mark.gpu

ADD_RMSNORM = operator("add_rmsnorm")
SOURCE = ROOT / "examples" / "add_rmsnorm.cu"
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
SHAPES = [(1, 1), (5, 1), (3, 7), (1, 8), (4, 64), (65, 257), (7, 4096), (4097, 311), (2, 16385), (1, 100_003)]


@pytest.fixture
def source() -> kbench.CudaSource:
    if reason := kbench.CudaSource.missing_tools():
        pytest.skip(reason)
    torch.manual_seed(0)
    return kbench.CudaSource(SOURCE)


def randn(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, device="cuda").to(dtype)


def wrong(inputs: list[Tensor], function: Callable[..., object], what: str, **declared: Any) -> list[str]:
    """Check a function as kbench checks a provider: a sentence for what is wrong, nothing if it is right."""
    M, N = inputs[0].shape
    case = ADD_RMSNORM.case(str(inputs[0].dtype).removeprefix("torch."), M=M, N=N)
    definition = Definition(ADD_RMSNORM, case)
    preparer = preparer_of(definition, Provider("mine", "add_rmsnorm", function, "mine", **declared), {})
    fault = run_checked(Expected(definition, [x.clone() for x in inputs]), preparer, inputs, Device()).wrong
    return [f"{case.label}, {what}: {fault}"] if fault else []


def out_of_place(kernel: Callable[..., None]) -> Callable[..., tuple[Tensor, Tensor]]:
    def run(*inputs: Tensor) -> tuple[Tensor, Tensor]:
        y, h = torch.empty_like(inputs[0]), torch.empty_like(inputs[0])
        kernel(inputs, [y, h])
        return y, h

    return run


def matrices(dtype: torch.dtype) -> Iterator[list[Tensor]]:
    for M, N in SHAPES:
        yield [randn(M, N, dtype=dtype), randn(M, N, dtype=dtype), randn(N, dtype=dtype)]


@pytest.mark.parametrize(("dtype", "threads"), zip(DTYPES, (None, 64, 1024), strict=True))
def test_every_shape_is_right(source: kbench.CudaSource, dtype: torch.dtype, threads: int | None) -> None:
    function = out_of_place(source.kernel("add_rmsnorm", eps=1e-6, threads=threads))
    assert [fault for inputs in matrices(dtype) for fault in wrong(inputs, function, "dense")] == []


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_with_gaps_and_unaligned_rows_are_right(source: kbench.CudaSource, dtype: torch.dtype) -> None:
    kernel, faults = source.kernel("add_rmsnorm", eps=1e-6), []
    for M, N in [(1, 1), (3, 7), (5, 64), (33, 1000)]:
        for padding, first in [(1, 0), (1, 1), (8, 0), (8, 8), (8, 3)]:

            def run(*inputs: Tensor) -> tuple[Tensor, Tensor]:
                M, N = inputs[0].shape
                y, wide = inputs[0].new_empty(M, N), inputs[0].new_zeros(M, N + padding)  # noqa: B023
                h = wide[:, first : first + N]  # noqa: B023
                kernel(inputs, [y, h])
                assert torch.equal(wide.count_nonzero(), h.count_nonzero())  # nothing beside h is written
                return y, h

            x = randn(M, N + padding, dtype=dtype)[:, first : first + N]
            inputs = [x, randn(M, N + 1, dtype=dtype)[:, 1:], randn(N + 1, dtype=dtype)[1:]]
            faults += wrong(inputs, run, f"columns {first}: of N + {padding}")
            aligned = [x, randn(M, N + 8, dtype=dtype)[:, 8:], randn(N, dtype=dtype)]
            faults += wrong(aligned, run, f"columns {first}: of N + {padding}, residual and weight aligned")
    assert not faults


def test_a_source_with_an_error_is_compiled_once_and_names_the_line(
    source: kbench.CudaSource, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "cache"))
    (tmp_path / "mine.cu").write_text('#include "device.cuh"\n\nint broken = missing;\n')
    broken = kbench.CudaSource(tmp_path / "mine.cu")
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r'^mine\.cu:3: error: identifier "missing" is undefined$'):
            broken.kernel("mine")
    assert capsys.readouterr().err.count("building CUDA extension mine") == 1
    (tmp_path / "other.cu").write_text('#include "device.cuh"\n')
    with pytest.raises(RuntimeError, match=r"^other\.cu does not define the table `kernels` in the namespace kbench$"):
        kbench.CudaSource(tmp_path / "other.cu").kernel("mine")
