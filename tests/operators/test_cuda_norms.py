"""The CUDA kernels of rmsnorm, add_rmsnorm and layernorm, on a GPU: every way to share a row, views, special values and
gradients."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from kbench.contract.provider import Unsupported
from kbench.kernels import cuda_extension
from kbench.kernels.cuda_source import partial_sums
from kbench.measure.correctness.call import stage_of
from kbench.measure.correctness.check import run_checked
from kbench.measure.correctness.expected import Expected
from kbench.measure.definition.definition import Definition
from kbench.measure.machine.device import Device
from kbench.registry import operator

pytestmark = pytest.mark.gpu

OPERATORS = ("rmsnorm", "add_rmsnorm", "layernorm")
WITH_GRADIENTS = ("rmsnorm", "layernorm")
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
PRECISIONS = [(dtype, dtype) for dtype in DTYPES] + [(dtype, torch.float32) for dtype in DTYPES[1:]]
"""Of the matrices and of the weights."""
LENGTHS = [
    *(
        1,
        2,
        3,
        5,
        8,
        9,
        31,
        33,
        64,
        65,
        100,
        127,
        128,
        129,
        192,
        256,
        257,
        300,
        384,
        511,
        512,
        513,
        768,
        781,
        1000,
        1024,
        1025,
    ),
    *(
        1536,
        2048,
        2056,
        2880,
        3072,
        4096,
        4097,
        5120,
        6144,
        7168,
        8192,
        8193,
        8200,
        12288,
        16384,
        16392,
        24577,
        32768,
        40960,
    ),
    *(50257, 65536, 65544, 98304, 131072, 131073, 151936, 262143, 262144),
]
"""Both sides of the lines of the dispatch table, hidden sizes of models, and lengths between them."""

MIXED_LENGTHS = (
    *(1, 3, 8, 64, 127, 128, 136, 500, 768, 776, 781, 1536, 2880, 3072, 3080, 4096, 4097, 8192, 8193, 8200),
    *(16384, 16392, 24577, 32768, 32776, 50257, 65536, 65544, 131072, 131073, 262143, 262144),
)
"""The same for weights in float32 beside matrices in 16 bits, for which there are fewer kernels."""


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    if reason := cuda_extension.missing_tools():
        pytest.skip(reason)
    torch.manual_seed(0)
    yield
    torch.cuda.empty_cache()


def randn(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(*shape, device="cuda").to(dtype)


def inputs_of(name: str, matrices: list[Tensor], weights: torch.dtype | None = None, first: int = 0) -> list[Tensor]:
    """The matrices that an operator reads, and its vectors: in the matrices' dtype unless `weights` is another. The vectors
    begin `first` elements beyond a multiple of 16 bytes."""
    columns, dtype = matrices[0].shape[1], weights or matrices[0].dtype
    vectors = [randn(first + columns, dtype=dtype)[first:] for _ in range(2 if name == "layernorm" else 1)]
    return [*matrices[: _matrices(name)], *vectors]


def _matrices(name: str) -> int:
    return 2 if name == "add_rmsnorm" else 1


def dense(name: str, M: int, N: int, dtype: torch.dtype, weights: torch.dtype | None = None) -> list[Tensor]:
    return inputs_of(name, [randn(M, N, dtype=dtype), randn(M, N, dtype=dtype)], weights)


def wrong(name: str, inputs: list[Tensor], what: str, mode: str = "forward") -> list[str]:
    """Check the provider as `kbench check` does: a sentence for what is wrong, nothing if it is right. In mode backward the
    gradient of y comes after the inputs."""
    M, N = inputs[0].shape
    op = operator(name)
    alike = inputs[_matrices(name)].dtype == inputs[0].dtype
    weights = "same" if alike else "float32"
    case = op.case(str(inputs[0].dtype).removeprefix("torch."), M=M, N=N, mode=mode, weight_dtype=weights)
    definition = Definition(op, case)
    stage = stage_of(definition, op.providers["cuda"], {})
    fault = run_checked(Expected(definition, [x.clone() for x in inputs]), stage, inputs, Device()).wrong
    return [f"{case.label}, {what}: {fault}"] if fault else []


def kernel(name: str, **options: float) -> Any:
    """A function of the operator's inputs that returns the first output, with these options of its kernel."""
    source = importlib.import_module(f"kbench.operators.{name}.providers_cuda").SOURCE
    launch = source.kernel(name, eps=1e-6, **options)

    def call(inputs: list[Tensor]) -> Tensor:
        outputs = [torch.empty_like(inputs[0]) for _ in range(2 if name == "add_rmsnorm" else 1)]
        launch(inputs, outputs)
        return outputs[0]

    return call


def saving(name: str, inputs: list[Tensor]) -> tuple[Tensor, Tensor]:
    """The output, and what the forward pass saves for the backward pass."""
    function = importlib.import_module(f"kbench.operators.{name}.providers_cuda").cuda_saving
    y, statistics = function(*inputs, eps=1e-6)
    return y, statistics


def row_counts(N: int, dtype: torch.dtype) -> list[int]:
    """Few rows and many are dispatched differently, by their number and by their bytes."""
    many = 2**24 // (N * dtype.itemsize) + 1
    return [1, 19, min(many, 2100)] if N < 10_000 else [3, many]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPERATORS)
def test_every_length_is_right(name: str, dtype: torch.dtype) -> None:
    faults = [
        fault
        for N in LENGTHS
        for M in row_counts(N, dtype)
        for fault in wrong(name, dense(name, M, N, dtype), "random")
    ]
    assert not faults


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPERATORS)
def test_views_are_right(name: str, dtype: torch.dtype) -> None:
    faults = []
    for N in (5, 64, 100, 300, 1000, 2880, 4096, 20000, 70001):
        for padding, first in [(1, 0), (1, 1), (8, 0), (8, 8), (8, 4)]:
            wide = [randn(7, N + padding, dtype=dtype)[:, first : first + N] for _ in range(2)]
            faults += wrong(name, inputs_of(name, wide), f"columns {first}: of N + {padding}")
            faults += wrong(name, inputs_of(name, [wide[0], randn(7, N, dtype=dtype)]), "x with gaps, residual without")
        rows = [randn(14, N, dtype=dtype)[::2] for _ in range(2)]
        faults += wrong(name, inputs_of(name, rows), "every second row")
        inputs = inputs_of(name, [randn(1, N, dtype=dtype).expand(7, N), rows[1]])
        torch.testing.assert_close(
            kernel(name)(inputs), kernel(name)([x.contiguous() for x in inputs])
        )  # a row, 7 times
    assert not faults


@pytest.mark.parametrize("dtype", DTYPES[1:])
@pytest.mark.parametrize("name", OPERATORS)
def test_weights_in_float32_are_right_at_every_length(name: str, dtype: torch.dtype) -> None:
    faults = [
        fault
        for N in MIXED_LENGTHS
        for M in row_counts(N, dtype)
        for fault in wrong(name, dense(name, M, N, dtype, torch.float32), "random")
    ]
    assert not faults


@pytest.mark.parametrize("dtype", DTYPES[1:])
@pytest.mark.parametrize("name", OPERATORS)
def test_weights_in_float32_are_right_beside_views(name: str, dtype: torch.dtype) -> None:
    """Matrices and weights that begin anywhere."""
    faults = []
    for N in (5, 64, 100, 300, 2880, 4096, 20000, 70001):
        for padding, first in [(1, 1), (8, 0), (8, 4), (3, 0)]:
            wide = [randn(7, N + padding, dtype=dtype)[:, first : first + N] for _ in range(2)]
            for begin in (0, 1, 2, 3):
                inputs = inputs_of(name, wide, torch.float32, begin)
                faults += wrong(name, inputs, f"columns {first}: of N + {padding}, weights {begin}:")
            mixed = inputs_of(name, [wide[0], randn(7, N, dtype=dtype)], torch.float32)
            faults += wrong(name, mixed, "x with gaps, residual without")
    assert not faults


@pytest.mark.parametrize("dtype", DTYPES[1:])
@pytest.mark.parametrize("name", OPERATORS)
def test_weights_in_float32_are_not_rounded(name: str, dtype: torch.dtype) -> None:
    """y is rounded once. If the weights were rounded first, more than a fifth of the elements would differ by a unit."""
    for N in (100, 781, 4096, 16384, 65536):
        inputs = dense(name, 16, N, dtype, torch.float32)
        x = inputs[0].double()
        if name == "add_rmsnorm":
            x = x + inputs[1].double()
        vectors = [vector.double() for vector in inputs[_matrices(name) :]]
        if name == "layernorm":
            expected = torch.nn.functional.layer_norm(x, (N,), *vectors, eps=1e-6)
        else:
            expected = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * vectors[0]
        differ = (kernel(name)(inputs) != expected.to(dtype)).double().mean()
        assert differ < 0.02, N


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPERATORS)
def test_rows_with_a_large_mean_are_right(name: str, dtype: torch.dtype) -> None:
    faults = []
    for N in (7, 100, 1000, 4096, 20000, 65536):
        inputs = dense(name, 5, N, dtype)
        inputs[0] += 300
        faults += wrong(name, inputs, "random + 300")
        outlier = dense(name, 5, N, dtype)
        outlier[0][:, 0] = 3e4
        faults += wrong(name, outlier, "one large element")
    assert not faults


@pytest.mark.parametrize("name", OPERATORS)
def test_special_values_are_those_of_float32_arithmetic(name: str) -> None:
    for N in (3, 300, 4096, 30000):
        inputs = dense(name, 6, N, torch.float32)
        x = inputs[0]
        x[0, N // 2], x[1, N - 1], x[2, 0], x[3] = float("nan"), float("inf"), -float("inf"), 0.0
        if name == "add_rmsnorm":
            inputs[1].zero_()
        y = kernel(name)(inputs)
        if name == "layernorm":
            expected = torch.nn.functional.layer_norm(x, (N,), inputs[1], inputs[2], 1e-6)
        else:
            expected = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * inputs[-1]
        torch.testing.assert_close(y, expected, equal_nan=True, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype, weights", PRECISIONS)
@pytest.mark.parametrize("name", OPERATORS)
def test_every_way_to_share_a_row_gives_the_same(name: str, dtype: torch.dtype, weights: torch.dtype) -> None:
    """To the last digit of the sums, which depend on their order. A choice that cannot hold the row is refused."""
    tolerance = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
    taken = set()
    for N in (64, 296, 1000, 4096, 8192, 8200, 16384, 65536):
        inputs = dense(name, 37, N, dtype, weights)
        expected = kernel(name)(inputs)
        choices = [{"packs": p, "blocks": b, "keep": k} for p in (1, 2, 4, 8) for b in (1, 2, 4, 16) for k in (0, 1)]
        if N * dtype.itemsize <= 1536:
            choices += [{"group": 32, "packs": 3}, {"group": 8, "packs": 3}]
        for choice in choices:
            try:
                y = kernel(name, **choice)(inputs)
            except Unsupported as refusal:
                assert "cannot hold a row of N=" in str(refusal)
                continue
            taken.add((N, choice.get("packs")))
            assert torch.allclose(y, expected, rtol=tolerance, atol=tolerance), (N, choice)
    assert {(4096, 2), (4096, 4)} <= taken
    assert ((4096, 1) in taken) == (weights == dtype)


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


@pytest.mark.parametrize("name", OPERATORS)
def test_what_the_kernels_decline_has_a_reason(name: str) -> None:
    inputs = dense(name, 6, 32, torch.float32)
    with pytest.raises(Unsupported, match="not next to each other in memory"):
        kernel(name)([inputs[0].repeat(1, 2)[:, ::2], *inputs[1:]])
    reason = "an element for each column of x, without gaps, and the dtype of x or float32"
    with pytest.raises(Unsupported, match=reason):
        kernel(name)([*inputs[:-1], inputs[-1].double()])
    with pytest.raises(Unsupported, match=reason):
        kernel(name)([*inputs[:-1], inputs[-1].half()])
    if name == "layernorm":
        with pytest.raises(Unsupported, match="all vectors must have the same dtype"):
            kernel(name)([inputs[0].half(), inputs[1].half(), inputs[2]])
    with pytest.raises(Unsupported, match="no kernel for float64"):
        kernel(name)([x.double() for x in inputs])
    x, w = (torch.zeros(1, device="cuda").expand(*sizes, 2**31) for sizes in ((1,), ()))
    source = importlib.import_module(f"kbench.operators.{name}.providers_cuda").SOURCE
    inputs = {"rmsnorm": (x, w), "add_rmsnorm": (x, x, w), "layernorm": (x, w, w)}[name]
    with pytest.raises(Unsupported, match="a row has more than 2147483647 elements"):
        source.kernel(name, eps=1e-6)(inputs, (x, x) if name == "add_rmsnorm" else (x,))
