"""Softmax in CUDA C++: a ladder of four steps, from a thread per row to warp shuffles, and the best kernel for each shape. The
kernels are in `cuda/softmax.cu`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from torch import Tensor

from kbench.kernels.cuda_source import CudaSource, rowwise
from kbench.kernels.matrices import dense, dense_like
from kbench.operators.softmax.operator import softmax
from kbench.results.case import Case

SOURCE = CudaSource(Path(__file__).parent / "cuda/softmax.cu")

cuda_provider = partial(softmax.provider, devices=("cuda",), available=SOURCE.missing_tools, factory=True)


def _passes(count: int) -> Callable[[Case], int]:
    """Bytes moved by a kernel that reads and writes each row `count` times in total."""
    return lambda case: count * case.M * case.N * case.itemsize


@cuda_provider("cuda-naive", moved_bytes=_passes(4))
def cuda_naive(case: Case) -> Callable[[Tensor], Tensor]:
    """A thread per row, three passes: maximum, sum, output."""
    return rowwise(SOURCE.kernel("naive"))


@cuda_provider("cuda-online", moved_bytes=_passes(3))
def cuda_online(case: Case) -> Callable[[Tensor], Tensor]:
    """A thread per row, two passes: the sum is corrected whenever the running maximum grows."""
    return rowwise(SOURCE.kernel("online"))


@cuda_provider("cuda-shared", moved_bytes=_passes(3))
def cuda_shared(case: Case) -> Callable[[Tensor], Tensor]:
    """A block of 1024 threads per row, coalesced loads, tree reductions in shared memory."""
    return rowwise(SOURCE.kernel("shared"))


@cuda_provider("cuda-shuffle", moved_bytes=_passes(3))
def cuda_shuffle(case: Case) -> Callable[[Tensor], Tensor]:
    """As `cuda-shared`, but reduced by warp shuffles, with one value per warp in shared memory."""
    return rowwise(SOURCE.kernel("shuffle"))


@cuda_provider("cuda")
def cuda(case: Case, *, packs: int | None = None, blocks: int | None = None) -> Callable[[Tensor], Tensor]:
    """The best kernel for the shape. It keeps a row in the registers of a part of a warp, of a block, or of a cluster of
    blocks. Rows that fit into none of these are read twice.

    `packs` and `blocks` are requests: this many accesses of 16 bytes per thread, in this many blocks per row.
    """
    return rowwise(SOURCE.kernel("best", packs=packs, blocks=blocks))


@softmax.backward("cuda", saves=["y"])
def cuda_backward(dy: Tensor, x: Tensor, saved: tuple[Tensor]) -> Tensor:
    """`y * (dy - sum(dy * y))`. It reads y and dy once, unless rows are very long. Rows are shared as those of the norms."""
    y = saved[0]
    dx = dense_like(y)
    SOURCE.kernel("softmax_backward")((dense(dy), y), (dx,))
    return dx
