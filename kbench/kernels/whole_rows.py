"""Launches plain Triton kernels in which a program holds a whole row of a matrix, whatever the operator."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kbench.contract.provider import Unsupported
from kbench.kernels import block_mailbox, torch_fused, triton_rows

if TYPE_CHECKING:
    import torch

SOURCES = (Path(__file__), *(Path(str(module.__file__)) for module in (block_mailbox, torch_fused, triton_rows)))
"""The files of this folder that an operator with such kernels, and with `torch_fused`, runs."""

long_rows = triton_rows.long_rows


def launch(N: int) -> dict[str, int]:
    """The launch of a program that holds a row of N elements: its BLOCK, a power of two, and its warps."""
    block = triton_rows.power_of_two(N)
    return {"BLOCK": block, "num_warps": triton_rows.row_warps(block)}


def dense(x: torch.Tensor) -> torch.Tensor:
    """The matrix itself if the elements of each row are next to each other in memory, or else a copy without gaps."""
    return x if x.stride(1) == 1 or x.shape[1] == 1 else x.contiguous()


def known_dense(x: torch.Tensor) -> torch.Tensor:
    """The matrix itself. Raises Unsupported if `dense` would copy it: a kernel that works in place cannot take a copy."""
    if dense(x) is not x:
        raise Unsupported("the elements of a row are not next to each other in memory (stride(-1) is not 1)")
    return x
