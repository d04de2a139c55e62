"""The CUDA kernels of rmsnorm, add_rmsnorm and layernorm, on a GPU: every way to share a row, views and special values."""

from __future__ import annotations

import pytest
import torch
from cuda_checks import NORMS, PRECISIONS, dense_inputs, matrices_of, norm_inputs, norm_kernel, randn, wrong_norm

from kbench.contract.provider import Unsupported

pytestmark = pytest.mark.gpu

# fmt: off
LENGTHS = [
    1, 2, 3, 5, 8, 9, 31, 33, 64, 65, 100, 127, 128, 129, 136, 192, 256, 257, 300, 384, 511, 512, 513, 768, 776, 781,
    1000, 1024, 1025, 1536, 2048, 2056, 2880, 3072, 3080, 4096, 4097, 5120, 6144, 7168, 8192, 8193, 8200, 12288, 16384,
    16392, 24577, 32768, 40960, 50257, 65536, 65544, 98304, 131072, 131073, 151936, 262143, 262144,
]
# fmt: on
"""Both sides of the lines of the dispatch table, hidden sizes of models, and lengths between them."""


def row_counts(N: int, dtype: torch.dtype) -> list[int]:
    """Few rows and many are dispatched differently, by their number and by their bytes."""
    many = 2**24 // (N * dtype.itemsize) + 1
    return [1, 19, min(many, 2100)] if N < 10_000 else [3, many]


@pytest.mark.parametrize("dtype, weights", PRECISIONS)
@pytest.mark.parametrize("name", NORMS)
def test_every_length_is_right(name: str, dtype: torch.dtype, weights: torch.dtype) -> None:
    """The dtypes of 16 bits have kernels from the same templates, and share the lengths."""
    faults = []
    first, step = {torch.float32: (0, 1), torch.float16: (0, 2), torch.bfloat16: (1, 2)}[dtype]
    for N in LENGTHS[first::step]:
        for M in row_counts(N, dtype):
            faults += wrong_norm(name, dense_inputs(name, M, N, dtype, weights), "random")
    assert not faults


@pytest.mark.parametrize("dtype, weights", [PRECISIONS[0], PRECISIONS[2], PRECISIONS[4]])
@pytest.mark.parametrize("name", NORMS)
def test_views_are_right(name: str, dtype: torch.dtype, weights: torch.dtype) -> None:
    """Matrices and weights that begin anywhere."""
    faults = []
    for N in (5, 64, 300, 1000, 2880, 4096, 20000, 70001):
        for padding, first in [(1, 0), (1, 1), (8, 0), (8, 4)]:
            wide = [randn(7, N + padding, dtype=dtype)[:, first : first + N] for _ in range(2)]
            for begin in (0, 1, 2) if weights != dtype else (first % 2,):
                inputs = norm_inputs(name, wide, weights, begin)
                faults += wrong_norm(name, inputs, f"columns {first}: of N + {padding}, weights {begin}:")
            mixed = norm_inputs(name, [wide[0], randn(7, N, dtype=dtype)], weights)
            faults += wrong_norm(name, mixed, "x with gaps, residual without")
        rows = [randn(14, N, dtype=dtype)[::2] for _ in range(2)]
        inputs = norm_inputs(name, [randn(1, N, dtype=dtype).expand(7, N), rows[1]], weights)
        torch.testing.assert_close(
            norm_kernel(name)(inputs), norm_kernel(name)([x.contiguous() for x in inputs])
        )  # a row, 7 times
    assert not faults


@pytest.mark.parametrize("name", NORMS)
def test_weights_in_float32_are_not_rounded(name: str) -> None:
    """y is rounded once. If the weights were rounded first, more than a fifth of the elements would differ by a unit."""
    dtype = torch.bfloat16
    for N in (100, 781, 4096, 16384, 65536):
        inputs = dense_inputs(name, 16, N, dtype, torch.float32)
        x = inputs[0].double()
        if name == "add_rmsnorm":
            x = x + inputs[1].double()
        vectors = [vector.double() for vector in inputs[matrices_of(name) :]]
        if name == "layernorm":
            expected = torch.nn.functional.layer_norm(x, (N,), *vectors, eps=1e-6)
        else:
            expected = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * vectors[0]
        differ = (norm_kernel(name)(inputs) != expected.to(dtype)).double().mean()
        assert differ < 0.02, N


@pytest.mark.parametrize("name", NORMS)
def test_special_values_are_those_of_float32_arithmetic(name: str) -> None:
    for N in (3, 300, 4096, 30000):
        inputs = dense_inputs(name, 6, N, torch.float32)
        x = inputs[0]
        x[0, N // 2], x[1, N - 1], x[2, 0], x[3] = float("nan"), float("inf"), -float("inf"), 0.0
        if name == "add_rmsnorm":
            inputs[1].zero_()
        y = norm_kernel(name)(inputs)
        if name == "layernorm":
            expected = torch.nn.functional.layer_norm(x, (N,), inputs[1], inputs[2], 1e-6)
        else:
            expected = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * inputs[-1]
        torch.testing.assert_close(y, expected, equal_nan=True, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype, weights", PRECISIONS)
@pytest.mark.parametrize("name", NORMS)
def test_every_way_to_share_a_row_gives_the_same(name: str, dtype: torch.dtype, weights: torch.dtype) -> None:
    """To the last digit of the sums, which depend on their order. A choice that cannot hold the row is refused."""
    tolerance = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
    taken = set()
    for N in (64, 296, 1000, 4096, 8192, 8200, 16384, 65536):
        inputs = dense_inputs(name, 37, N, dtype, weights)
        expected = norm_kernel(name)(inputs)
        for choice in ({"packs": packs, "blocks": blocks} for packs in (1, 2, 4, 8) for blocks in (1, 2, 4, 16)):
            try:
                y = norm_kernel(name, **choice)(inputs)
            except Unsupported as refusal:
                assert "cannot hold a row of N=" in str(refusal)
                continue
            taken.add((N, choice.get("packs")))
            assert torch.allclose(y, expected, rtol=tolerance, atol=tolerance), (N, choice)
    assert {(4096, 2), (4096, 4)} <= taken
    assert ((4096, 1) in taken) == (weights == dtype)
