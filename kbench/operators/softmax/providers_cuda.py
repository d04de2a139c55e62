"""Softmax in CUDA C++: a ladder of four steps, from a thread per row to warp shuffles, and the best kernel for each N.

The kernels are in `cuda/softmax.cu`, and that of the backward pass in `cuda/softmax_backward.cu`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from kbench.kernels import triton_launch as block_mailbox
from kbench.kernels import whole_rows
from kbench.kernels.cuda_source import CudaSource, rowwise
from kbench.operators.softmax.operator import softmax

if TYPE_CHECKING:
    from torch import Tensor

    from kbench.results.case import Case

SOURCE = CudaSource(Path(__file__).parent / "cuda/softmax.cu")
BACKWARD_SOURCE = CudaSource(Path(__file__).parent / "cuda/softmax_backward.cu")
PACKS = (1, 2, 4, 6, 8, 12, 16, 20)
"""Numbers of 16-byte accesses per thread for which softmax.cu has kernels of a block per row; 16 in float32 only."""

LARGEST_CLUSTER = 16
"""The most blocks that can share a row, on devices with clusters of blocks."""

TEAM_PACKS = (1, 2, 4, 8)
"""The same for teams of blocks; 8 in float32 only."""

LARGEST_TEAM = 512
"""`kTeamBlocks` of rowwise.h: the most blocks of a launch whose blocks may be anywhere on the device."""

TEAM_WORDS, TEAM_ROWS, TEAM_COLUMNS = 1024, 32, 2**14
"""`kTeamWords` of rowwise.h. Matrices with at most this many rows, and at least this many columns, may need a mailbox of this
size; softmax.cu decides."""

cuda_provider = partial(softmax.provider, devices=("cuda",), available=SOURCE.missing_tools, factory=True)


def _passes(count: int) -> Callable[[Case], int]:
    """Bytes moved by a kernel that reads and writes each row `count` times in total."""
    return lambda case: count * case.M * case.N * case.itemsize


@cuda_provider("cuda-naive", label="CUDA 1: naive", moved_bytes=_passes(4))
def cuda_naive(case: Case) -> Callable[[Tensor], Tensor]:
    """A thread per row, three passes: maximum, sum, output."""
    return rowwise(SOURCE.kernel("naive"))


@cuda_provider("cuda-online", label="CUDA 2: online", moved_bytes=_passes(3))
def cuda_online(case: Case) -> Callable[[Tensor], Tensor]:
    """A thread per row, two passes: the sum is corrected whenever the running maximum grows."""
    return rowwise(SOURCE.kernel("online"))


@cuda_provider("cuda-shared", label="CUDA 3: shared memory", moved_bytes=_passes(3))
def cuda_shared(case: Case) -> Callable[[Tensor], Tensor]:
    """A block of 1024 threads per row, coalesced loads, tree reductions in shared memory."""
    return rowwise(SOURCE.kernel("shared"))


@cuda_provider("cuda-shuffle", label="CUDA 4: warp shuffles", moved_bytes=_passes(3))
def cuda_shuffle(case: Case) -> Callable[[Tensor], Tensor]:
    """As `cuda-shared`, but reduced by warp shuffles, with one value per warp in shared memory."""
    return rowwise(SOURCE.kernel("shuffle"))


@cuda_provider("cuda", label="CUDA")
def cuda(
    case: Case, *, packs: int | None = None, blocks: int | None = None, team: int | None = None
) -> Callable[[Tensor], Tensor]:
    """The best kernel for the shape.

    It keeps a row in the registers of a part of a warp, of a block, or of a cluster of blocks. Blocks anywhere on the device
    share a row if the rows are few and very long. Rows that fit into none of these are read twice.

    `packs` requests a block per row, with this many 16-byte accesses per thread. `blocks` requests this many blocks per row.
    If only one is given, the other is 8 or 1. `team` requests that this many blocks anywhere on the device share a row, also
    with `packs`. Raises ValueError for numbers that no kernel has.
    """
    if team is not None and blocks is not None:
        raise ValueError("give either blocks or team: both say how many blocks share a row")
    if team is not None and team not in range(2, LARGEST_TEAM + 1):
        raise ValueError(f"team must be from 2 to {LARGEST_TEAM}, not {team}")
    choices = PACKS if team is None else TEAM_PACKS
    if packs is not None and packs not in choices:
        listed = ", ".join(map(str, choices))
        raise ValueError(f"packs must be one of {listed}{' with team' if team else ''}, not {packs}")
    if blocks is not None and blocks not in range(1, LARGEST_CLUSTER + 1):
        raise ValueError(f"blocks must be from 1 to {LARGEST_CLUSTER}, not {blocks}")
    kernel = SOURCE.kernel("best", packs=packs, blocks=blocks, team=team)
    return rowwise(kernel, mailbox=_mailbox if team is None else _team_mailbox)


@softmax.backward("cuda", saves=["y"])
def cuda_backward(dy: Tensor, x: Tensor, saved: tuple[Tensor]) -> Tensor:
    """`y * (dy - sum(dy * y))`. It reads y and dy once, unless rows are very long. Rows are shared as those of the norms."""
    y = saved[0]
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    _backward_kernel()((whole_rows.dense(dy), y), (dx,))
    return dx


@functools.cache
def _backward_kernel() -> Callable[..., None]:
    return BACKWARD_SOURCE.kernel("softmax_backward")


def _mailbox(x: Tensor) -> Tensor | None:
    """The mailbox through which blocks share rows of x; None if none do."""
    rows, columns = x.shape
    return None if rows > TEAM_ROWS or columns < TEAM_COLUMNS else _team_mailbox(x)


def _team_mailbox(x: Tensor) -> Tensor | None:
    """A mailbox for teams of blocks that share rows of x; None on AMD GPUs."""
    if torch.version.hip:
        return None
    return block_mailbox.mailbox(x.device, TEAM_WORDS, "softmax.cu")
