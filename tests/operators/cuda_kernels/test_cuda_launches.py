"""The CUDA kernels of softmax and GELU, on a GPU: offsets beyond 32 bits, very many rows, and the stream of a launch."""

from __future__ import annotations

import pytest
import torch
from cuda_checks import DEVICE, GELU, LADDER, SIXTEEN_GIB, SOFTMAX, needs_memory, randn, wrong

from kbench.contract.operator import Operator
from kbench.measure.correctness.check import accuracy


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("provider", "N"), [*((provider, 1025) for provider in LADDER), ("cuda", 128), ("cuda", 1025), ("cuda", 131072)]
)
def test_softmax_row_offsets_beyond_32_bits(gpu: None, provider: str, N: int) -> None:
    """Rows a gigaelement apart: the fourth begins beyond 2**31."""
    needs_memory(SIXTEEN_GIB)
    buffer = torch.empty(3 * 2**30 + N, device=DEVICE, dtype=torch.float16)
    x = buffer.as_strided((4, N), (2**30, 1))
    x.copy_(randn(4, N, dtype=torch.float16))
    assert not wrong(SOFTMAX, provider, x, "rows 2**30 elements apart")


@pytest.mark.gpu
@pytest.mark.parametrize("provider", [*LADDER, "cuda", "gelu cuda"])
def test_more_than_2_31_elements(gpu: None, provider: str) -> None:
    needs_memory(SIXTEEN_GIB)
    op = GELU if provider.startswith("gelu") else SOFTMAX
    M, N = 2**21 + 3, 1025
    x = torch.empty(M, N, device=DEVICE, dtype=torch.float16).normal_()
    case = op.case("float16", M=M, N=N)
    y = op.providers[provider.removeprefix("gelu ")].bind(case, {})(x)
    for rows in (slice(0, 3), slice(M // 2, M // 2 + 3), slice(M - 3, M)):
        assert accuracy(op, case, [x[rows]], y[rows]).wrong is None


@pytest.mark.gpu
@pytest.mark.parametrize("provider", [*LADDER, "cuda"])
def test_softmax_of_very_many_rows(gpu: None, provider: str) -> None:
    """More rows than the 65535 and the 2**24 that a launch or a float can count."""
    x = torch.zeros(2**24 + 5, 1, device=DEVICE, dtype=torch.float16)
    case = SOFTMAX.case("float16", M=x.shape[0], N=1)
    assert bool((SOFTMAX.providers[provider].bind(case, {})(x) == 1).all())


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
