"""CUDA sources: how tensors and options reach a kernel, and what is refused. The kernels here run on the host, behind the
binding and the headers that CUDA sources have; on a GPU the example's kernel is called too."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest
import torch
from common import made_once
from torch import Tensor

import kbench
from kbench import Unsupported
from kbench.kernels import cuda_extension
from kbench.kernels.cuda_source import rowwise
from kbench.results.case import ITEMSIZE
from kbench.text.exception_text import describe_exception

HOST_KERNELS = Path(__file__).with_name("host_kernels.cpp")

HOST_RUNTIME = """
#pragma once
#include <cstdlib>
typedef int cudaError_t;
typedef struct CUstream_st* cudaStream_t;
enum { cudaSuccess = 0 };
inline const char* cudaGetErrorString(cudaError_t error) { return error == 9 ? "invalid configuration argument" : "?"; }
inline cudaError_t cudaGetDevice(int* device) {
  *device = std::getenv("HOST_KERNELS_DEVICE") ? 0 : -1;  // torch's number of the host is -1
  return cudaSuccess;
}
"""
"""In the place of CUDA's header: the host is the current device."""


def compile_host_kernels(folder: Path) -> str:
    (folder / "cuda_runtime_api.h").write_text(HOST_RUNTIME)
    library = folder / "host_kernels.so"
    command = ["c++", "-std=c++17", "-Wall", "-Werror", "-shared", "-fPIC", "-DTORCH_EXTENSION_NAME=host_kernels"]
    command += [f"-I{path}" for path in (folder, cuda_extension.HERE, sysconfig.get_path("include"))]
    command += [str(HOST_KERNELS), str(cuda_extension.BINDING), "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return str(library)


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    path = made_once(tmp_path_factory, "host-kernels", lambda: compile_host_kernels(tmp_path_factory.mktemp("host")))
    spec = importlib.util.spec_from_file_location("host_kernels", path)
    assert spec and spec.loader
    with pytest.MonkeyPatch.context() as patch:  # a torch for the CPU has no streams
        patch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 7 + device, raising=False)
        loaded = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture
def source(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> kbench.CudaSource:
    monkeypatch.setattr(cuda_extension, "build", lambda name, path: module)
    return kbench.CudaSource(HOST_KERNELS)


@contextmanager
def refused(kind: type[Exception], sentence: str) -> Iterator[None]:
    with pytest.raises(kind) as caught:
        yield
    assert str(caught.value) == sentence


def described(source: kbench.CudaSource, x: Tensor) -> str:
    with pytest.raises(Unsupported) as refusal:
        source.kernel("describe")([x], [torch.empty(1)])
    return str(refusal.value)


# ----------------------------------------------------------------------------------------------------------------------
# What a kernel gets


def test_a_kernel_takes_several_tensors_of_any_strides_and_options(source: kbench.CudaSource) -> None:
    x = torch.randn(4, 3, 2, dtype=torch.float64).permute(2, 0, 1)
    y = torch.randn(2, 1, 3, dtype=torch.float64).expand(2, 4, 3)
    z = torch.zeros(2, 4, 7, dtype=torch.float64)[:, :, ::3]
    source.kernel("axpy", a=0.5, more=2)((x, y), (z,))
    assert torch.equal(z, 2.5 * x + y)
    source.kernel("axpy", a=1, more=None)([x, y], [z])  # an int for a float, and a default
    assert torch.equal(z, x + y)


def test_a_kernel_may_write_into_one_of_its_inputs(source: kbench.CudaSource) -> None:
    x, y = torch.ones(5, dtype=torch.float64), torch.arange(5, dtype=torch.float64)
    source.kernel("axpy", a=3)([x, y], [y])
    assert y.tolist() == [3, 4, 5, 6, 7]


@pytest.mark.parametrize("dtype", ITEMSIZE)
def test_every_dtype_of_an_operator_reaches_a_kernel_as_itself(source: kbench.CudaSource, dtype: str) -> None:
    x = torch.empty(3, 5, dtype=getattr(torch, dtype))
    assert described(source, x).startswith(f"{dtype} of {x.element_size()} bytes 3:5 5:1 contiguous")


def test_a_kernel_learns_the_layout_of_a_tensor(source: kbench.CudaSource) -> None:
    x = torch.empty(4, 16)
    assert described(source, x) == "float32 of 4 bytes 4:16 16:1 contiguous dense aligned"
    assert described(source, x[:, 4:12]) == "float32 of 4 bytes 4:16 8:1 dense aligned"
    assert described(source, x[:, 1:13]) == "float32 of 4 bytes 4:16 12:1 dense"  # begins 4 bytes too late
    assert described(source, x[:, :5]) == "float32 of 4 bytes 4:16 5:1 dense"  # ends within 16 bytes
    assert described(source, x[:1, :3].t()) == "float32 of 4 bytes 3:1 1:16 contiguous dense"
    assert described(source, x.t()) == "float32 of 4 bytes 16:1 4:16"
    assert described(source, x[:, :15:2]) == "float32 of 4 bytes 4:16 8:2"
    assert described(source, torch.empty(())) == "float32 of 4 bytes contiguous"
    assert described(source, torch.empty(3, 0, 2)) == "float32 of 4 bytes 3:2 0:2 2:1 contiguous dense"


def test_a_kernel_is_called_on_the_current_stream_and_looked_up_once(source: kbench.CudaSource) -> None:
    y = torch.zeros(1, dtype=torch.int64)
    source.kernel("stream")([], [y])
    assert y.item() == 7 - 1  # the number of the host is -1
    assert source.kernel("axpy", a=1) is source.kernel("axpy", a=1) is not source.kernel("axpy", a=2)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_nothing_is_launched_for_empty_outputs(source: kbench.CudaSource, shape: tuple[int, int]) -> None:
    source.kernel("fail")([], [torch.empty(shape)])
    assert rowwise(source.kernel("twice"))(torch.empty(shape)).shape == shape


def test_rows_are_passed_with_their_stride_and_not_copied(source: kbench.CudaSource) -> None:
    twice = rowwise(source.kernel("twice"))
    x = torch.randn(4, 10)[:, 1:6]
    y = twice(x)
    assert torch.equal(y, 2 * x) and y.is_contiguous()
    column = torch.randn(3, 2)[:, :1]  # one column: its stride says nothing
    assert torch.equal(twice(column), 2 * column)


# ----------------------------------------------------------------------------------------------------------------------
# What is refused


X = torch.zeros(3, dtype=torch.float64)
MATRIX = torch.zeros(3, 4)


def test_a_wrong_call_is_refused(source: kbench.CudaSource) -> None:
    axpy, twice, fail = source.kernel("axpy", a=1), source.kernel("twice"), source.kernel("fail")
    narrow, many = X.to(torch.complex64), torch.zeros(1).expand(2**31, 1)
    for kernel, inputs, outputs, kind, sentence in (
        (axpy, [X], [X], TypeError, "axpy takes 2 inputs (x, y), not 1"),
        (axpy, [X, X], [X, X], TypeError, "axpy takes 1 output (z), not 2"),
        (fail, [X], [X], TypeError, "fail takes 0 inputs (), not 1"),
        (axpy, [X, None], [X], TypeError, "axpy: y must be a torch.Tensor, not NoneType"),
        (axpy, [X, X.numpy()], [X], TypeError, "axpy: y must be a torch.Tensor, not numpy.ndarray"),
        (axpy, X, [X], TypeError, "axpy: inputs and outputs must be lists or tuples of tensors, not Tensor"),
        (axpy, {X}, [X], TypeError, "axpy: inputs and outputs must be lists or tuples of tensors, not set"),
        (axpy, [X, narrow], [X], Unsupported, "axpy: no CUDA source takes torch.complex64, the dtype of y"),
        (axpy, [X.view(*[1] * 16, 3), X], [X], Unsupported, "axpy: x has 17 dimensions, more than 16"),
        (axpy, [X.float(), X], [X], Unsupported, "x must be float64"),
        (twice, [MATRIX], [MATRIX.t()], Unsupported, "all matrices must have the shape and the dtype of x"),
        (twice, [many], [many], Unsupported, "M > 2147483647: one launch computes at most that many rows"),
        (
            source.kernel("misspelt"),
            [],
            [X],
            RuntimeError,
            "misspelt reads the option block, which it does not declare",
        ),
        (fail, [], [MATRIX], RuntimeError, "fail: invalid configuration argument"),
    ):
        with refused(kind, sentence):
            kernel(inputs, outputs)


def test_rows_with_gaps_between_their_elements_and_tensors_of_another_device_are_refused(
    source: kbench.CudaSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    gaps = "the elements of a row are not next to each other in memory (stride(-1) is not 1)"
    with refused(Unsupported, gaps):
        rowwise(source.kernel("twice"))(MATRIX.t())
    monkeypatch.setenv("HOST_KERNELS_DEVICE", "0")
    with refused(ValueError, "axpy: x is on cpu; the current device is cuda:0"):
        source.kernel("axpy", a=1)([X, X], [X])


def test_a_kernel_an_option_and_a_value_that_a_source_does_not_have_are_refused(source: kbench.CudaSource) -> None:
    with refused(
        ValueError, "host_kernels.cpp has no kernel gelu; it has axpy, describe, twice, stream, fail, misspelt"
    ):
        source.kernel("gelu")
    for name, options, sentence in (
        ("axpy", {"a": 1, "threads": 64}, "axpy has no option threads; it has a, more"),
        ("describe", {"a": 1}, "describe has no option a; it has none"),
        ("axpy", {"more": 1}, "axpy needs a value for its option a"),
        ("axpy", {"a": "tanh"}, "a of axpy must be a number, not 'tanh'"),
    ):
        with refused(TypeError, sentence):
            source.kernel(name, **options)
    with refused(ValueError, "more must be a whole number, not 1.500000"):
        source.kernel("axpy", a=1, more=1.5)([X, X], [X])


def test_a_wrong_call_is_an_error_at_the_line_of_the_provider(source: kbench.CudaSource) -> None:
    kernel = source.kernel("axpy", a=1)
    for wrong in (lambda: kernel([], []), lambda: source.kernel("axpy"), lambda: source.kernel("gelu")):
        with pytest.raises((TypeError, ValueError)) as caught:
            wrong()
        assert f" at {Path(__file__).name}:" in describe_exception(caught.value)


def test_calls_keep_no_tensor_alive(source: kbench.CudaSource) -> None:
    """Neither a launch nor a refusal at any point leaves a reference behind."""
    x = torch.zeros(3, dtype=torch.float64)
    axpy = source.kernel("axpy", a=1)
    before = sys.getrefcount(x), sys.getrefcount(x.dtype), sys.getrefcount(x.device)
    for _ in range(100):
        axpy([x, x], [x])
        for inputs in ([x], [x, None], [x, x.to(torch.complex64)], [x.float(), x]):
            with pytest.raises((TypeError, ValueError, Unsupported)):
                axpy(inputs, [x])
    del inputs
    assert (sys.getrefcount(x), sys.getrefcount(x.dtype), sys.getrefcount(x.device)) == before


def test_a_source_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with refused(FileNotFoundError, f"there is no CUDA source {tmp_path}/nowhere.cu"):
        kbench.CudaSource(tmp_path / "nowhere.cu")
