"""RMS normalisation in CUDA C++. The kernel is in `rmsnorm.cu`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kbench.kernels.cuda_source import CudaSource, rowwise
from kbench.operators.rmsnorm.operator import rmsnorm

if TYPE_CHECKING:
    from torch import Tensor

    from kbench.results.case import Case

SOURCE = CudaSource(Path(__file__).with_name("rmsnorm.cu"))


@rmsnorm.provider("cuda", label="CUDA", devices=("cuda",), available=SOURCE.missing_tools, factory=True)
def cuda(case: Case, *, eps: float) -> Callable[..., Tensor]:
    """Each row stays in the registers of a part of a warp, of a block, or of a cluster of blocks."""
    return rowwise(SOURCE.kernel("rmsnorm", eps=eps))
