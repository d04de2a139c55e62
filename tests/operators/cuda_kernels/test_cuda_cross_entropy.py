"""The CUDA kernels of cross-entropy, on a GPU: every way to share a row, rows that begin anywhere, views."""

from __future__ import annotations

import math

import pytest
import torch
from judged_outputs import judged

from kbench.contract.registry import operator
from kbench.operators.cross_entropy.providers_cuda import (
    cuda,
    cuda_backward,
    cuda_full,
    cuda_full_in_place,
    cuda_saving,
)

pytestmark = pytest.mark.gpu

SHAPES = [
    (5, 1), (3, 7), (70000, 40), (70, 64), (5000, 129), (300, 1000), (2500, 1024), (9, 4097), (3000, 8192), (40, 32000),
    (700, 32000), (33, 50257), (3, 128256), (200, 131072), (5, 151936), (2, 262143), (2, 262144), (2, 1_000_000),
]  # fmt: skip
WAYS = [
    ("cuda", "forward"),
    ("cuda", "backward"),
    ("cuda", "full"),
    ("cuda-in-place", "backward"),
    ("cuda-in-place", "full"),
]
DTYPES = ["float32", "bfloat16", "float16"]


@pytest.mark.parametrize("at", range(len(SHAPES)), ids=lambda at: "x".join(map(str, SHAPES[at])))
@pytest.mark.parametrize("way", range(len(WAYS)), ids=lambda way: "-".join(WAYS[way]))
def test_losses_and_gradients_are_right(at: int, way: int) -> None:
    """The dtypes come in turn: each shape has all of them, and so has each way."""
    (M, V), (provider, mode) = SHAPES[at], WAYS[way]
    case = operator("cross_entropy").case(DTYPES[(at + way) % 3], M=M, V=V, mode=mode)
    assert judged(case, provider) is None


@pytest.mark.parametrize("V", [5, 3000, 50257, 200_001])
def test_every_way_to_share_a_row_gives_the_same_losses(V: int) -> None:
    """Clusters of up to 16 blocks, where the device has them."""
    x, labels = torch.randn(7, V, device="cuda"), torch.arange(7, device="cuda") % V
    expected = torch.nn.functional.cross_entropy(x.double(), labels, reduction="none")
    total = (x.double() - x.amax(1, keepdim=True)).exp().sum(1)
    for blocks in (1, 2, 3, 4, 8, 16) if torch.cuda.get_device_capability()[0] in (9, 10) else (1,):
        loss, saved = cuda_saving(x, labels, blocks=blocks)
        torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(saved[0], x.amax(1), rtol=0, atol=0)
        torch.testing.assert_close(saved[1].double(), total, rtol=1e-5, atol=0)


@pytest.mark.parametrize("V", [1000, 40000])
def test_rows_of_a_view_and_labels_at_their_ends(V: int) -> None:
    memory = torch.randn(6, V + 3, device="cuda")
    x, between = memory[:, 1:-2], memory[:, [0, -2, -1]].clone()
    labels = torch.tensor([0, V - 1, 1, V - 2, V // 2, 3], device="cuda")
    d_loss = torch.tensor([1.0, -2.0, 0.0, 0.5, 3.0, 1.0], device="cuda")
    loss, gradient = cuda_full(d_loss, x, labels)
    exact = x.double().requires_grad_()
    expected = torch.nn.functional.cross_entropy(exact, labels, reduction="none")
    (wanted,) = torch.autograd.grad(expected, exact, d_loss.double())
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(gradient.double(), wanted, rtol=1e-5, atol=1e-7)
    # out of place, input and output rows are aligned differently, so another kernel runs, which sums in another order
    torch.testing.assert_close(cuda_full_in_place(d_loss, x, labels)[0], loss, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(x, gradient, rtol=1e-5, atol=1e-7)
    assert torch.equal(memory[:, [0, -2, -1]], between)


@pytest.mark.parametrize("V", [100, 1000, 40000])
def test_labels_that_are_no_column_read_nothing(V: int) -> None:
    """The loss of such a row is NaN, and other rows are as they were."""
    x = torch.randn(6, V, device="cuda")
    labels = torch.tensor([0, -1, V - 1, V, 1, 2**40], device="cuda")
    right = torch.nn.functional.cross_entropy(x[::2], labels[::2], reduction="none")
    for loss in (cuda(x, labels), cuda_full(torch.ones(6, device="cuda"), x, labels)[0]):
        torch.cuda.synchronize()
        assert loss.isnan().tolist() == [False, True, False, True, False, True]
        torch.testing.assert_close(loss[::2], right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("V", [100, 40000, 300_000])
def test_rows_without_a_finite_sum_have_no_loss_and_no_gradient(V: int) -> None:
    """Other rows are as they were."""
    x = torch.randn(5, V, device="cuda")
    x[1], x[2, V // 2], x[3, V - 1] = -math.inf, math.nan, math.inf
    labels, d_loss = torch.zeros(5, dtype=torch.int64, device="cuda"), torch.ones(5, device="cuda")
    right = torch.nn.functional.cross_entropy(x[::4], labels[::4], reduction="none")
    loss, saved = cuda_saving(x, labels)
    both, gradient = cuda_full(d_loss, x, labels)
    for losses in (loss, both):
        assert losses.isnan().tolist() == [False, True, True, True, False]
        torch.testing.assert_close(losses[::4], right, rtol=1e-5, atol=1e-6)
    for rows in (gradient, cuda_backward(d_loss, x, labels, saved)):
        assert rows[[0, 4]].isfinite().all()
        assert rows[[1, 2]].isnan().all()
        assert rows[3].isnan().any()
