"""softmax and cross-entropy in Triton on rows that begin and end anywhere, and on rows that programs share.

Without an accelerator the kernels run in Triton's interpreter. `test_every_provider.py` and `test_triton_semantics.py` judge
them by kbench's own check; here are the inputs that it does not draw, and slices of short rows."""

from __future__ import annotations

import pytest
import torch
from judged_outputs import DEVICE, normal
from torch import Tensor

pytest.importorskip("triton")
# numpy says so where a kernel works on a row of -inf or NaN, or on the padding of a tile
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

ERROR = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
PLACES = {torch.bfloat16: [(1, 0), (3, 5), (8, 8)], torch.float32: [(1, 0), (8, 8)]}
"""Elements before a matrix in memory, and between its rows. Elements of 16 bits share words, so they have more places."""


def softmax(x: Tensor, slices: int | None = None) -> Tensor:
    from kbench.operators.softmax.providers_triton import FORWARD

    out = x.new_empty(x.shape)
    FORWARD((out,), (x,), slices)
    return out


def softmax_gradient(dy: Tensor, y: Tensor, slices: int | None = None) -> Tensor:
    from kbench.operators.softmax.providers_triton import BACKWARD

    dx = y.new_empty(y.shape)
    BACKWARD((dx,), (dy, y), slices)
    return dx


def losses(x: Tensor, labels: Tensor, slices: int | None = None, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    from kbench.operators.cross_entropy.providers_triton import LOSSES

    loss, saved = x.new_empty(len(x), dtype=torch.float32), x.new_empty(2, len(x), dtype=torch.float32)
    LOSSES((loss, saved), (x, labels), smoothing, slices)
    return loss, saved


def gradient(d_loss: Tensor, x: Tensor, labels: Tensor, saved: Tensor, smoothing: float = 0.0) -> Tensor:
    from kbench.operators.cross_entropy.providers_triton import GRADIENTS

    dx = x.new_empty(x.shape)
    GRADIENTS((dx,), (d_loss, x, labels, saved), smoothing)
    return dx


def losses_and_gradients(d_loss: Tensor, dx: Tensor, x: Tensor, labels: Tensor, slices: int | None = None) -> Tensor:
    from kbench.operators.cross_entropy.providers_triton import BOTH

    loss = x.new_empty(len(x), dtype=torch.float32)
    BOTH((loss,), (dx, d_loss, x, labels), 0.0, slices)
    return loss


def expected_losses(x: Tensor, labels: Tensor, d_loss: Tensor, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    exact = x.double().requires_grad_()
    loss = torch.nn.functional.cross_entropy(exact, labels, reduction="none", label_smoothing=smoothing)
    return loss.detach(), torch.autograd.grad(loss, exact, d_loss.double())[0]


def expected_softmax_gradient(dy: Tensor, y: Tensor) -> Tensor:
    return y.double() * (dy.double() - (y.double() * dy.double()).sum(-1, keepdim=True))


def close(output: Tensor, expected: Tensor) -> None:
    error = ERROR[output.dtype]
    torch.testing.assert_close(output.double(), expected.double(), rtol=error, atol=error * 1e-3, equal_nan=True)


def in_memory(x: Tensor, first: int, gap: int) -> tuple[Tensor, Tensor]:
    """The same matrix `first` elements into memory that is 7 elsewhere, with `gap` elements between rows; and that memory."""
    M, N = x.shape
    memory = torch.full((first + M * (N + gap) + 64,), 7.0, dtype=x.dtype, device=x.device)
    view = memory.as_strided((M, N), (N + gap, 1), first)
    view.copy_(x)
    return view, memory


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("M", "N", "slices"), [(3, 7, None), (33, 65, None), (5, 410, None), (2, 1025, None), (2, 1025, 3), (2, 640, 5)]
)
def test_rows_that_begin_anywhere(M: int, N: int, slices: int | None, dtype: torch.dtype) -> None:
    """Whole, in eighths, and in slices: every pass is right, and memory beside the matrices stays as it was."""
    labels = torch.arange(M, device=DEVICE) * 7919 % N
    labels[-1] = N - 1
    d_loss, given = normal(M) + 2, normal(M, N, dtype=dtype)
    loss, dx = expected_losses(given, labels, d_loss)
    for first, gap in PLACES[dtype]:
        x, memory = in_memory(given, first, gap)
        before = memory.clone()
        y = softmax(x, slices)
        close(y, x.double().softmax(-1))
        dy, _ = in_memory(given.flip(0), first, gap)
        exact = expected_softmax_gradient(dy, y)
        assert ((softmax_gradient(dy, y, slices).double() - exact).abs() <= 2 * y.double() * ERROR[dtype] + 1e-7).all()
        own_loss, saved = losses(x, labels, slices)
        close(own_loss, loss)
        close(gradient(d_loss, x, labels, saved), dx)
        assert torch.equal(memory, before)
        close(losses_and_gradients(d_loss, x, x, labels, slices), loss)  # over the logits
        close(x, dx)
        x.fill_(7.0)
        assert (memory == 7).all()


@pytest.mark.slow
@pytest.mark.parametrize(("N", "first"), [(12288, 1), (14400, 0), (24560, 1), (28656, 0)])  # 3, 4, 6 and 7 blocks
def test_many_rows_of_several_blocks(N: int, first: int) -> None:
    """Rows that begin and end anywhere, and -inf in all but one of the blocks."""
    x = normal(33, N + 8 * first, dtype=torch.bfloat16)[:, first : N + first]
    x[0, : N - 100], x[1, 4000:] = float("-inf"), float("-inf")
    close(softmax(x), x.double().softmax(-1))


def test_programs_share_rows_again_and_again() -> None:
    """What one launch leaves in the words through which programs exchange results must suit the next, whatever its kernel and
    its shape."""
    for M, N, slices in [(2, 640, 3), (7, 640, 3), (1, 640, 5), (2, 320, 3), (1, 4200, 65), (2, 640, 3)]:
        x, labels, d_loss = normal(M, N), torch.arange(M, device=DEVICE) * 31 % N, normal(M)
        loss, dx = expected_losses(x, labels, d_loss)
        y = softmax(x, slices)
        close(y, x.double().softmax(-1))
        close(losses(x, labels, slices)[0], loss)
        close(softmax_gradient(x, y, slices), expected_softmax_gradient(x, y))
        gradients = x.new_empty(x.shape)
        close(losses_and_gradients(d_loss, gradients, x, labels, slices), loss)
        close(gradients, dx)


@pytest.mark.parametrize("slices", [1, 4])
@pytest.mark.parametrize("offset", [0.0, -200.0])
def test_slices_that_are_minus_infinity(slices: int, offset: float) -> None:
    x = normal(4, 1024) + offset
    x[0, :256], x[1, 768:], x[2, 256:512], x[3, 1:] = (float("-inf"),) * 4
    labels, d_loss = torch.tensor([256, 0, 1023, 0], device=DEVICE), normal(4)
    loss, dx = expected_losses(x, labels, d_loss)
    close(softmax(x, slices), x.double().softmax(-1))
    close(losses(x, labels, slices)[0], loss)
    gradients = x.new_empty(x.shape)
    close(losses_and_gradients(d_loss, gradients, x, labels, slices), loss)
    close(gradients, dx)


@pytest.mark.parametrize("slices", [1, 3])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_rows_without_a_result(value: float, slices: int) -> None:
    """A row with NaN or +inf, and a row of -inf, are NaN. Other rows are as they were."""
    x, labels, d_loss = normal(3, 1000), torch.tensor([1, 2, 3], device=DEVICE), normal(3)
    x[1, slice(None) if value < 0 else slice(500, 501)] = value
    gradients = x.new_empty(x.shape)
    loss = losses_and_gradients(d_loss, gradients, x, labels, slices)
    for rows in (loss, losses(x, labels, slices)[0], gradients, softmax(x, slices)):
        assert rows[1].isnan().all() and rows[::2].isfinite().all()


@pytest.mark.parametrize(("wrong", "slices"), [(-1, 1), (-100, 3), (1000, 3), (2**31, 1), (2**40, 3)])
def test_labels_that_are_no_column_read_nothing(wrong: int, slices: int) -> None:
    """The loss of such a row is NaN, and other rows are as they were. A read at 2^40 elements would end the process."""
    x, labels, d_loss = normal(3, 1000), torch.tensor([0, 5, 999], device=DEVICE), torch.ones(3, device=DEVICE)
    expected, dx = expected_losses(x, labels, d_loss)
    labels[1] = wrong
    gradients = x.new_empty(x.shape)
    both = losses_and_gradients(d_loss, gradients, x, labels, slices)
    alone, saved = losses(x, labels, slices)
    for loss in (both, alone):
        assert loss.isnan().tolist() == [False, True, False]
        close(loss[::2], expected[::2])
    for result in (gradients, gradient(d_loss, x, labels, saved)):
        close(result[::2], dx[::2])
        close(result[1], x[1].double().softmax(-1))


@pytest.mark.parametrize("slices", [None, 2])
def test_labels_are_smoothed_in_slices_too(slices: int | None) -> None:
    x, labels, d_loss = normal(4, 333), torch.arange(4, device=DEVICE), normal(4)
    expected, dx = expected_losses(x, labels, d_loss, 0.1)
    loss, saved = losses(x, labels, slices, 0.1)
    close(loss, expected)
    torch.testing.assert_close(gradient(d_loss, x, labels, saved, 0.1).double(), dx, rtol=1e-4, atol=1e-6)


on_a_gpu = pytest.mark.skipif(DEVICE.type != "cuda", reason="needs a CUDA or ROCm device")
FEW_AND_MANY = [(1, 262144), (7, 200_001), (5, 1_500_000), (700, 50257)]


@pytest.mark.gpu
@on_a_gpu
@pytest.mark.parametrize(("M", "N"), FEW_AND_MANY)
def test_graphs_that_are_replayed_side_by_side(M: int, N: int) -> None:
    """Each has words of its own, so that graphs and eager launches do not take each other's."""
    x = torch.randn(M, N, device=DEVICE)
    expected = softmax(x)
    graphs, outputs = [torch.cuda.CUDAGraph() for _ in range(3)], []
    for graph in graphs:
        with torch.cuda.graph(graph):
            outputs.append([softmax(x), softmax(x)])
    streams = [torch.cuda.Stream() for _ in graphs]
    torch.cuda.synchronize()
    for _ in range(20):
        for graph, stream in zip(graphs, streams, strict=True):
            with torch.cuda.stream(stream):
                graph.replay()
        softmax(x)
    torch.cuda.synchronize()
    assert all(torch.equal(out, expected) for pair in outputs for out in pair)
