"""The CUDA kernels of softmax and GELU, on a GPU: offsets beyond 32 bits, very many rows, the stream of a launch, and a
source with an error."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from cuda_checks import DEVICE, GELU, LADDER, SIXTEEN_GIB, SOFTMAX, needs_memory, randn

import kbench
from kbench.contract.operator import Operator
from kbench.measure.correctness.check import accuracy


@pytest.mark.gpu
@pytest.mark.parametrize("provider", [*LADDER, "cuda", "gelu cuda"])
def test_more_than_2_31_elements_and_very_many_rows(gpu: None, provider: str) -> None:
    """More rows than the 65535 and the 2**24 that a launch or a float can count."""
    needs_memory(SIXTEEN_GIB)
    op = GELU if provider.startswith("gelu") else SOFTMAX
    M, N = 2**24 + 5, 129
    x = torch.empty(M, N, device=DEVICE, dtype=torch.float16).normal_()
    case = op.case("float16", M=M, N=N)
    y = op.providers[provider.removeprefix("gelu ")].bind(case, {})(x)
    for rows in (slice(0, 3), slice(M // 2, M // 2 + 3), slice(M - 3, M)):
        assert accuracy(op, case, [x[rows]], y[rows]).wrong is None


@pytest.mark.gpu
@pytest.mark.parametrize("op", [SOFTMAX, GELU], ids=lambda op: op.name)
def test_the_current_stream_is_used_and_can_be_captured(gpu: None, op: Operator) -> None:
    x = randn(64, 4096, dtype=torch.float32)
    case = op.case("float32", M=64, N=4096)
    function = op.providers["cuda"].bind(case, {})
    function(x)  # loads the kernel, which a capture does not allow
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # a launch on any other stream is not captured, and fails
        y = function(x)
    x.copy_(randn(64, 4096, dtype=torch.float32))
    y.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert accuracy(op, case, [x], y).wrong is None


@pytest.mark.gpu
def test_a_source_with_an_error_is_compiled_once_and_names_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
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
