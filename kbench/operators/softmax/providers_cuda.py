"""Softmax in CUDA C++: a ladder of four steps, from a thread per row to warp shuffles, and the best kernel for each N.

The kernels stand in `softmax.cu`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from kbench.kernels import block_mailbox, cuda_extension
from kbench.operators.softmax.operator import softmax

if TYPE_CHECKING:
    from torch import Tensor

    from kbench.results.row import Case

SOURCE = Path(__file__).with_name("cuda") / "softmax.cu"
PACKS = (1, 2, 4, 6, 8, 12, 20)
"""Accesses of 16 bytes that a thread of a block can make: those that softmax.cu has kernels for."""

LARGEST_CLUSTER = 16
"""Blocks that can share a row, on devices that have clusters of blocks."""

TEAM_WORDS, TEAM_ROWS, TEAM_COLUMNS = 1024, 32, 2**14
"""kTeamWords of kernel.h. Matrices of so few rows, of so many columns or more, may need them: softmax.cu decides."""

SOURCES = (
    SOURCE,
    *cuda_extension.headers(SOURCE),
    cuda_extension.BINDING,
    Path(cuda_extension.__file__),
    Path(block_mailbox.__file__),
)


cuda_provider = partial(
    softmax.provider, devices=("cuda",), available=cuda_extension.missing, factory=True, sources=SOURCES
)


def _passes(count: int) -> Callable[[Case], int]:
    """Bytes moved by a kernel that reads or writes each row `count` times in all."""
    return lambda case: count * case.M * case.N * case.itemsize


@cuda_provider("cuda-naive", label="CUDA 1: naive", moved_bytes=_passes(4))
def cuda_naive(case: Case) -> Callable[[Tensor], Tensor]:
    """A thread per row, three passes: maximum, norm, output."""
    return cuda_extension.rowwise(cuda_extension.build("softmax", SOURCE).naive)


@cuda_provider("cuda-online", label="CUDA 2: online", moved_bytes=_passes(3))
def cuda_online(case: Case) -> Callable[[Tensor], Tensor]:
    """A thread per row, two passes: the norm is corrected whenever the running maximum grows."""
    return cuda_extension.rowwise(cuda_extension.build("softmax", SOURCE).online)


@cuda_provider("cuda-shared", label="CUDA 3: shared memory", moved_bytes=_passes(3))
def cuda_shared(case: Case) -> Callable[[Tensor], Tensor]:
    """A block of 1024 threads per row, coalesced loads, tree reductions in shared memory."""
    return cuda_extension.rowwise(cuda_extension.build("softmax", SOURCE).shared)


@cuda_provider("cuda-shuffle", label="CUDA 4: warp shuffles", moved_bytes=_passes(3))
def cuda_shuffle(case: Case) -> Callable[[Tensor], Tensor]:
    """As `cuda-shared`, reduced by warp shuffles with one value per warp in shared memory."""
    return cuda_extension.rowwise(cuda_extension.build("softmax", SOURCE).shuffle)


@cuda_provider("cuda", label="CUDA")
def cuda(case: Case, *, packs: int | None = None, blocks: int | None = None) -> Callable[[Tensor], Tensor]:
    """Rows in the registers of a part of a warp, a block, a cluster of blocks, or, where few are very long, blocks anywhere on
    the device; rows that those do not hold are read twice.

    `packs` asks for a block per row whose threads make so many accesses of 16 bytes each, `blocks` for so many blocks,
    whatever the shape; the other is then 8 or 1. Raises ValueError for numbers that no kernel has.
    """
    if packs is not None and packs not in PACKS:
        raise ValueError(f"packs must be one of {', '.join(map(str, PACKS))}, not {packs}")
    if blocks is not None and blocks not in range(1, LARGEST_CLUSTER + 1):
        raise ValueError(f"blocks must be from 1 to {LARGEST_CLUSTER}, not {blocks}")
    return cuda_extension.rowwise(
        cuda_extension.build("softmax", SOURCE).best, packs=packs, blocks=blocks, words=_words
    )


def _words(x: Tensor) -> int:
    """The address of the words through which blocks of x share rows; 0 where none will."""
    rows, columns = x.shape
    if rows > TEAM_ROWS or columns < TEAM_COLUMNS or torch.version.hip:
        return 0
    return block_mailbox.words(x.device, TEAM_WORDS, "softmax.cu").data_ptr()
