"""The CUDA kernels of softmax and GELU, on a GPU: offsets beyond 32 bits, very many rows, and the stream of a launch."""

from __future__ import annotations

import pytest
import torch
from cuda_checks import DEVICE, GELU, LADDER, SIXTEEN_GIB, SOFTMAX, needs_memory, randn

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
