"""The CUDA kernels of rmsnorm and layernorm, on a GPU: what the forward pass saves, and gradients."""

from __future__ import annotations

import importlib

import pytest
import torch
from cuda_norms import DTYPES, PRECISIONS, WITH_GRADIENTS, dense, inputs_of, kernel, randn, saving, wrong

from kbench.contract.provider import Unsupported
from kbench.contract.registry import operator
from kbench.kernels.cuda_source import partial_sums

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype, weights", PRECISIONS)
@pytest.mark.parametrize("name", WITH_GRADIENTS)
def test_what_the_forward_pass_saves_is_right(name: str, dtype: torch.dtype, weights: torch.dtype) -> None:
    """Statistics of each row; and the output is the same as without them, but for the last digit of a sum."""
    tolerance = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
    for N in (1, 3, 64, 129, 256, 781, 1000, 4096, 4097, 8192, 16384, 32768, 50257, 65536, 131072, 262144):
        for M in (1, 7, 2100 if N < 2000 else 2**22 // N):
            inputs = dense(name, M, N, dtype, weights)
            y, statistics = saving(name, inputs)
            assert torch.allclose(y, kernel(name)(inputs), rtol=tolerance, atol=tolerance), (M, N)
            x = inputs[0].double()
            mean = x.mean(1) if name == "layernorm" else x.new_zeros(M)
            rstd = torch.rsqrt((x - mean[:, None]).square().mean(1) + 1e-6)
            torch.testing.assert_close(statistics.double(), torch.stack([mean, rstd], 1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", WITH_GRADIENTS)
def test_the_pass_that_saves_shares_rows_as_asked(name: str) -> None:
    op = operator(name)
    for dtype in ("float32", "bfloat16"):
        inputs = dense(name, 70, 4096, getattr(torch, dtype))
        case = op.case(dtype, M=70, N=4096, mode="full")
        expected = saving(name, inputs)
        for packs, blocks in ((2, 1), (4, 1), (8, 1)):
            saves = op.providers["cuda"].bind_saves(case, {"packs": packs, "blocks": blocks})
            assert callable(saves)
            for found, wanted in zip(saves(*inputs), expected, strict=True):
                torch.testing.assert_close(found, wanted, rtol=2e-2, atol=2e-2)
        saves = op.providers["cuda"].bind_saves(case, {"packs": 1})
        assert callable(saves)
        with pytest.raises(Unsupported, match="there is no such kernel"):
            saves(*inputs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", WITH_GRADIENTS)
def test_both_passes_are_right(name: str, dtype: torch.dtype) -> None:
    faults = []
    for M, N in ((7, 100), (300, 781), (2100, 4096), (300, 16384), (40, 50257)):
        faults += wrong(name, [*dense(name, M, N, dtype), randn(M, N, dtype=dtype)], "random", "full")
    assert not faults


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", WITH_GRADIENTS)
def test_gradients_of_every_length_are_right(name: str, dtype: torch.dtype) -> None:
    """Many and few rows for each persistent block, and lengths that persistent blocks cannot hold."""
    faults = []
    for N in (
        1,
        3,
        8,
        9,
        64,
        100,
        256,
        768,
        781,
        1000,
        2048,
        2880,
        4096,
        4097,
        8192,
        12288,
        16384,
        32768,
        50257,
        65536,
        131072,
    ):
        for M in (1, 7, 2100 if N < 5000 else 300):
            inputs = [*dense(name, M, N, dtype), randn(M, N, dtype=dtype)]
            faults += wrong(name, inputs, "random", "backward")
    faults += wrong(name, [*dense(name, 40, 262144, dtype), randn(40, 262144, dtype=dtype)], "random", "backward")
    assert not faults


@pytest.mark.parametrize("dtype", DTYPES[1:])
@pytest.mark.parametrize("name", WITH_GRADIENTS)
def test_gradients_with_weights_in_float32_are_right(name: str, dtype: torch.dtype) -> None:
    """Those of the weights are in float32."""
    faults = []
    for N in (1, 3, 8, 9, 64, 256, 768, 781, 1000, 2048, 2880, 4096, 4097, 8192, 16384, 32768, 50257, 65536, 131072):
        for M in (1, 7, 2100 if N < 5000 else 300):
            inputs = [*dense(name, M, N, dtype, torch.float32), randn(M, N, dtype=dtype)]
            faults += wrong(name, inputs, "random", "backward")
    for N in (5, 64, 300, 2880, 20000):
        for padding, first in [(1, 0), (8, 0), (8, 4)]:
            wide = [randn(70, N + padding, dtype=dtype)[:, first : first + N] for _ in range(2)]
            inputs = [*inputs_of(name, wide, torch.float32, first // 4), wide[1]]
            faults += wrong(name, inputs, f"columns {first}: of N + {padding}", "backward")
    faults += wrong(
        name, [*dense(name, 3, 262144, dtype, torch.float32), randn(3, 262144, dtype=dtype)], "random", "backward"
    )
    assert not faults


@pytest.mark.parametrize("mode", ["backward", "full"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_of_rows_with_a_large_mean_are_right(dtype: torch.dtype, mode: str) -> None:
    """The elements of a row are equal or nearly so: only x - mean keeps their digits, and not x / root - mean / root. N is a
    power of two: otherwise the mean of equal elements is rounded, and no float32 kernel is right."""
    faults = []
    for N in (1, 2, 8, 64, 1024, 4096):
        for M in (1, 7, 300):
            for added in (300, 3000, 30000):
                x, *vectors = dense("layernorm", M, N, dtype)
                inputs = [x + added, *vectors, randn(M, N, dtype=dtype)]
                faults += wrong("layernorm", inputs, f"random + {added}", mode)
    assert not faults


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", WITH_GRADIENTS)
def test_gradients_of_views_are_right(name: str, dtype: torch.dtype) -> None:
    faults = []
    for N in (5, 64, 300, 2880, 20000):
        for padding, first in [(1, 0), (1, 1), (8, 0), (8, 4)]:
            wide = [randn(70, N + padding, dtype=dtype)[:, first : first + N] for _ in range(2)]
            faults += wrong(name, [*inputs_of(name, wide), wide[1]], f"columns {first}: of N + {padding}", "backward")
            mixed = [*inputs_of(name, wide), randn(70, N, dtype=dtype)]
            faults += wrong(name, mixed, "x with gaps, the gradient without", "backward")
        inputs = dense(name, 70, N, dtype)
        inputs[0] += 300
        faults += wrong(name, [*inputs, randn(70, N, dtype=dtype)], "random + 300", "backward")
    assert not faults


@pytest.mark.parametrize("weights", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("name", WITH_GRADIENTS)
def test_gradients_are_deterministic(name: str, weights: torch.dtype) -> None:
    for M, N in ((5000, 1000), (5000, 4096), (600, 4097), (300, 65536)):
        inputs = dense(name, M, N, torch.bfloat16, weights)
        dy = randn(M, N, dtype=torch.bfloat16)
        backward = operator(name).providers["cuda"].backward
        assert backward is not None
        statistics = saving(name, inputs)[1]
        first, second = (backward.function(dy, *inputs, statistics) for _ in range(2))
        assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True)), (M, N)


@pytest.mark.parametrize("dtype, weights", PRECISIONS)
@pytest.mark.parametrize("name", WITH_GRADIENTS)
def test_every_way_to_share_a_row_gives_the_same_gradients(name: str, dtype: torch.dtype, weights: torch.dtype) -> None:
    """To the last digits: the order of the sums differs. A choice that cannot hold the row is refused."""
    tolerance = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
    source = importlib.import_module(f"kbench.operators.{name}.providers_cuda").BACKWARD_SOURCE
    taken = set()
    for M, N in ((37, 64), (37, 1000), (600, 1024), (5, 4096), (90, 4096), (300, 8200), (37, 65536), (3, 131072)):
        x, *vectors = dense(name, M, N, dtype, weights)
        dy, statistics = randn(M, N, dtype=dtype), saving(name, [x, *vectors])[1]
        ways = [{}, *({"packs": p, "blocks": b} for p in (1, 2, 4) for b in (1, 2, 4, 16))]
        ways += [
            {"packs": p, "blocks": 1, "together": t, "joined": j}
            for p in (1, 2, 4)
            for t in (1, 2, 8)
            for j in (1, 4, 16)
        ]
        found = []
        for way in ways:
            gradients = [torch.empty_like(x), *(torch.empty_like(each) for each in vectors)]
            outputs = (*gradients, partial_sums(x, len(vectors)))
            try:
                source.kernel(f"{name}_backward", **way)((dy, x, vectors[0], statistics), outputs)
            except Unsupported as refusal:
                assert "cannot hold a row of N=" in str(refusal)
                continue
            taken.add((N, way.get("packs"), way.get("blocks")))
            found.append(gradients)
            for one, other in zip(found[0], gradients, strict=True):
                limit = tolerance * float(one.abs().max())
                assert torch.allclose(one, other, rtol=0, atol=limit), (M, N, way)
    assert (4096, 2, 1) in taken
    if torch.cuda.get_device_capability() >= (9, 0):
        assert {(4096, 2, 2), (65536, 2, 16)} <= taken


@pytest.mark.parametrize("name", WITH_GRADIENTS)
def test_gradients_of_no_rows_are_zero(name: str) -> None:
    backward = operator(name).providers["cuda"].backward
    assert backward is not None
    for M, N in ((0, 5), (5, 0)):
        inputs = dense(name, M, N, torch.float32)
        dx, *others = backward.function(torch.empty_like(inputs[0]), *inputs, saving(name, inputs)[1])
        assert dx.shape == (M, N) and all(other.shape == (N,) and not other.any() for other in others)
