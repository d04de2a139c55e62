"""The CUDA kernel of softmax's backward pass, on a GPU: every way to share a row, rows that begin anywhere, views."""

from __future__ import annotations

import pytest
import torch

from kbench.contract.provider import Unsupported
from kbench.contract.registry import operator
from kbench.measure.correctness.call import stage_of
from kbench.measure.correctness.check import run_checked
from kbench.measure.correctness.expected import Expected
from kbench.measure.correctness.inputs import Inputs
from kbench.measure.definition.definition import Definition
from kbench.measure.machine.device import Device
from kbench.operators.softmax.providers_cuda import cuda_backward

pytestmark = pytest.mark.gpu

SHAPES = [(5, 1), (3, 7), (70, 64), (5000, 129), (300, 1000), (2500, 1024), (9, 4097), (3000, 8192), (40, 32000)]
SHAPES += [(700, 16384), (33, 50257), (200, 131072), (5, 151936), (2, 262143), (20, 262144), (2, 1_000_000)]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("M, N", SHAPES)
def test_gradients_are_right(M: int, N: int, dtype: str) -> None:
    case = operator("softmax").case(dtype, M=M, N=N, mode="backward")
    definition, device = Definition(operator("softmax"), case), Device()
    inputs = Inputs(definition, device, 0).draw("random")
    stage = stage_of(definition, operator("softmax").providers["cuda"], {})
    found = run_checked(Expected(definition, [x.clone() for x in inputs]), stage, inputs, device)
    assert found and found.wrong is None


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("N", [100, 1000, 40001])
def test_received_gradients_that_are_views(N: int, first: int) -> None:
    """Rows of dy may be further apart than those of y, and begin at other distances from a multiple of 16 bytes."""
    y, wide = torch.randn(6, N, device="cuda").softmax(1), torch.randn(6, N + 3, device="cuda")
    exact = y.double()
    for dy in (wide[:, first : first + N], wide[:1, :N].expand(6, N), torch.randn(N, 6, device="cuda").t()):
        found = cuda_backward(dy, y, (y,))
        given = dy.double()
        wanted = exact * (given - (exact * given).sum(1, keepdim=True))
        torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=1e-8)


def test_nan_stays_in_its_row_and_no_rows_are_no_work() -> None:
    y, dy = torch.randn(3, 1000, device="cuda").softmax(1), torch.randn(3, 1000, device="cuda")
    dy[1, 500] = float("nan")
    assert cuda_backward(dy, y, (y,)).isnan().all(1).tolist() == [False, True, False]
    assert cuda_backward(dy[:0], y[:0], (y[:0],)).shape == (0, 1000)


def test_another_dtype_is_declined() -> None:
    y, dy = torch.ones(2, 8, device="cuda"), torch.ones(2, 8, device="cuda", dtype=torch.float16)
    with pytest.raises(Unsupported, match="the dtype of x"):
        cuda_backward(dy, y, (y,))
