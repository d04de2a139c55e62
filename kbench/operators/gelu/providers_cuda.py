"""GELU in CUDA C++. The kernel is in `gelu.cu`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torch import Tensor

from kbench.kernels.cuda_source import CudaSource, rowwise
from kbench.operators.gelu.operator import gelu
from kbench.results.case import Case

SOURCE = CudaSource(Path(__file__).with_name("gelu.cu"))


@gelu.provider("cuda", devices=("cuda",), available=SOURCE.missing_tools, factory=True)
def cuda(case: Case, *, approximate: str = "tanh") -> Callable[[Tensor], Tensor]:
    """A dense matrix is one run of elements: each thread makes one 16-byte access, in blocks of 128 threads. In a small matrix
    a thread makes half an access, in blocks of 256. For rows with gaps, and for an input that does not begin at a multiple of
    16 bytes, a thread gathers the elements of its 16-byte store."""
    return rowwise(SOURCE.kernel(approximate))
