"""Which matrices Triton kernels read with the hint `evict_last`: those that are more than twice as large as the L2 cache."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kbench.kernels import triton_rows
from kbench.kernels.slice_launch import Matrix
from kbench.operators.cross_entropy.triton_dispatch import both_launch, gradients_launch
from kbench.operators.softmax.triton_backward_dispatch import backward_launch
from kbench.operators.softmax.triton_dispatch import dispatch

CACHE_BYTES = 60 * 2**20


@pytest.mark.parametrize("N", [1024, 8192, 65536])
@pytest.mark.parametrize(("more_rows", "policy"), [(0, ""), (1, "evict_last")])
def test_a_matrix_that_is_twice_as_large_as_the_cache_is_read_with_the_hint(
    N: int, more_rows: int, policy: str
) -> None:
    M = 2 * CACHE_BYTES // (2 * N) + more_rows
    assert dispatch(M, N, 2, cache_bytes=CACHE_BYTES).constants["POLICY"] == policy
    x = Matrix(M, N, 2, 8, False, cache_bytes=CACHE_BYTES)
    for launch in (backward_launch(x), gradients_launch(x, False)):
        assert launch.constants["POLICY"] == policy
    assert both_launch(x._replace(columns=N // 2, itemsize=4, vector=4), False).constants["POLICY"] == policy


@pytest.mark.parametrize(("hip", "cache_bytes"), [(None, CACHE_BYTES), ("6.4", float("inf"))])
def test_the_size_of_the_cache_is_that_of_the_device(
    monkeypatch: pytest.MonkeyPatch, hip: str | None, cache_bytes: float
) -> None:
    """No hint was measured on AMD GPUs, so no matrix is larger than their cache."""

    def properties(device: torch.device) -> Any:
        return SimpleNamespace(L2_cache_size=CACHE_BYTES)

    monkeypatch.setattr(triton_rows, "_properties", properties)
    monkeypatch.setattr(torch.version, "hip", hip)
    assert triton_rows.cache_bytes(torch.device("cuda", 0)) == cache_bytes


def test_cuda_and_triton_agree_on_which_matrices_are_large() -> None:
    source = Path(triton_rows.__file__).with_name("cache.cuh").read_text()
    assert re.findall(r"kKeptCaches = (\d+);", source) == [str(triton_rows.KEPT_CACHES)]


def test_a_device_without_a_known_cache_gets_no_hint() -> None:
    assert triton_rows.load_policy_for(torch.empty(2**12, 2**10)) == ""
