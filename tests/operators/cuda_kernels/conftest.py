"""All tests of this folder need a GPU, and what builds CUDA providers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from kbench.kernels import cuda_extension


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    reason = cuda_extension.missing_tools()
    if reason:
        pytest.skip(reason)
    torch.manual_seed(0)
    yield
    torch.cuda.empty_cache()
