"""The tolerance, with a scale that the operator declares and without: right kernels pass, in every dtype and at every size, and
what only looks right fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.registry import operator
from kbench.contract.tensor import Tensor as Declared
from kbench.contract.tensor import integers
from kbench.measure.correctness.check import accuracy
from kbench.measure.correctness.elements import ulp

DTYPES = ["float32", "float16", "bfloat16"]
MATRIX, ROW, COLUMN = Declared("M", "N"), Declared("N"), Declared("M")


def made(
    name: str, inputs: dict[str, Declared], output: Declared, reference: Callable[..., Tensor], **more: object
) -> Operator:
    return Operator(f"tolerances-{name}", ("M", "N"), inputs, {"y": output}, reference, **more)  # type: ignore[arg-type]


def wrong(judge: Operator, inputs: Sequence[Tensor], output: Tensor) -> str | None:
    """What kbench says against an output, None when it is right."""
    sizes = dict(zip(("M", "N"), (*inputs[0].shape, 1), strict=False))
    case = judge.case(str(inputs[0].dtype).removeprefix("torch."), **sizes)
    return accuracy(judge, case, inputs, output).wrong


def normal(*shape: int, dtype: str = "float32", seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(getattr(torch, dtype))


# -- operators whose terms cancel, written as by somebody who has read no more than the docstring of kbench.Operator


class Family(NamedTuple):
    """An operator, what torch calls it, and its inputs for two sizes, a dtype and a seed."""

    operator: Operator
    right: Callable[..., Tensor]
    inputs: Callable[[int, int, str, int], tuple[Tensor, ...]]


def _layer_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / ((centred**2).mean(-1, keepdim=True) + 1e-5).sqrt() * w + b


def _cross_entropy(x: Tensor, labels: Tensor) -> Tensor:
    return x.logsumexp(-1) - x.gather(1, labels[:, None])[:, 0]


def _labels(m: int, n: int, seed: int) -> Tensor:
    return torch.randint(n, (m,), generator=torch.Generator().manual_seed(seed))


LABELS = Declared("M", dtype="int64", fill=integers("N"))
FAMILIES = {
    "layernorm": Family(
        made("layernorm", {"x": MATRIX, "w": ROW, "b": ROW}, MATRIX, _layer_norm, rows="M"),
        lambda x, w, b: F.layer_norm(x, x.shape[1:], w, b),
        lambda m, n, dtype, seed: (
            normal(m, n, dtype=dtype, seed=seed),
            normal(n, dtype=dtype, seed=seed + 10),
            normal(n, dtype=dtype, seed=seed + 20),
        ),
    ),
    "matmul": Family(
        made("matmul", {"a": MATRIX, "b": Declared("N", "M")}, Declared("M", "M"), lambda a, b: a @ b),
        torch.matmul,
        lambda m, n, dtype, seed: (normal(m, n, dtype=dtype, seed=seed), normal(n, m, dtype=dtype, seed=seed + 10)),
    ),
    "cross-entropy": Family(
        made("cross-entropy", {"x": MATRIX, "labels": LABELS}, COLUMN, _cross_entropy, rows="M"),
        lambda x, labels: F.cross_entropy(x, labels, reduction="none"),
        lambda m, n, dtype, seed: (normal(m, n, dtype=dtype, seed=seed), _labels(m, n, seed)),
    ),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FAMILIES)
def test_torch_is_right_at_every_size_and_what_looks_like_it_is_wrong(name: str, dtype: str) -> None:
    family = FAMILIES[name]
    for m, n in [
        (32, 32),
        (32, 64),
        (1, 1),
        (7, 1),
        (3, 257),
    ]:  # square ones, where one input could be taken for another
        inputs = family.inputs(m, n, dtype, 0)
        assert wrong(family.operator, inputs, family.right(*inputs)) is None, (m, n)
    for m, n in [(32, 32), (16, 257)]:
        inputs = family.inputs(m, n, dtype, 0)
        right = family.right(*inputs)
        dropped = right.clone()
        dropped[..., -1] = 0
        stale = family.right(*family.inputs(m, n, dtype, 1))
        for fault, output in {"stale": stale, "no last column": dropped, "5 % more": right * 1.05}.items():
            assert wrong(family.operator, inputs, output), (fault, m, n)


MISSING: dict[str, Callable[..., Tensor]] = {
    "layernorm": lambda x, w, b: F.layer_norm(x, x.shape[1:], w),
    "matmul": lambda a, b: a[:, :-1] @ b[:-1],
    "cross-entropy": lambda x, labels: (
        x[:, :-1].exp().sum(-1).log() - x.gather(1, labels[:, None])[:, 0]  # the last word is missing
    ),
}


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_term_and_small_errors_are_found(name: str) -> None:
    """In float32 at every size; in bfloat16 one term of a thousand is less than what the output is rounded by."""
    family = FAMILIES[name]
    for m, n, dtype in [(32, 32, "float32"), (64, 1024, "float32"), (32, 32, "bfloat16")]:
        inputs = family.inputs(m, n, dtype, 0)
        assert wrong(family.operator, inputs, MISSING[name](*inputs)), (m, n, dtype)
    inputs = family.inputs(48, 48, "float32", 0)
    right = family.right(*inputs)
    for output in (right * 1.0001, right.bfloat16().float()):
        assert wrong(family.operator, inputs, output)


def test_one_pass_variance_is_found_on_a_large_offset() -> None:
    family = FAMILIES["layernorm"]
    x, w, b = family.inputs(16, 512, "float32", 0)
    x = x + 8000
    mean = x.mean(-1, keepdim=True)
    one_pass = (x - mean) / ((x * x).mean(-1, keepdim=True) - mean * mean + 1e-5).sqrt() * w + b
    assert wrong(family.operator, (x, w, b), family.right(x, w, b)) is None
    assert wrong(family.operator, (x, w, b), one_pass)


def test_terms_that_cancel_on_the_way_count_too() -> None:
    """1 + tanh(u) is as good as zero for x = -8: no input is large, but a float32 kernel has rounded a 1."""
    gelu = made(
        "gelu",
        {"x": MATRIX},
        MATRIX,
        lambda x: 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x**3))),
        tolerance=16,
    )
    x = torch.linspace(-8, 8, 4096).reshape(4, 1024)
    assert wrong(gelu, (x,), F.gelu(x, approximate="tanh")) is None
    assert wrong(gelu, (x,), F.gelu(x))  # erf is not tanh
    assert wrong(gelu, (x,), F.relu(x))


def test_a_kernel_that_rounds_twice_is_right_unless_the_operator_says_otherwise() -> None:
    def reference(x: Tensor) -> Tensor:
        return x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * 1.7

    def twice(x: Tensor) -> Tensor:
        rounded = (x.float() / (x.float().pow(2).mean(-1, keepdim=True) + 1e-6).sqrt()).to(x.dtype)
        return rounded * torch.tensor(1.7, dtype=x.dtype)

    x = normal(64, 512, dtype="bfloat16")
    own_scale = {"output_ulps": 1, "scale": lambda case, reference, x: reference}
    strict = made("strict", {"x": MATRIX}, MATRIX, reference, tolerance=16, **own_scale)
    assert wrong(made("twice", {"x": MATRIX}, MATRIX, reference, tolerance=16), (x,), twice(x)) is None
    reason = str(wrong(strict, (x,), twice(x)))
    assert reason.endswith("; to allow more, raise output_ulps of operator tolerances-strict")


# -- softmax, which declares its scale

softmax = operator("softmax")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 127, 65536])
def test_an_exactly_rounded_result_passes_within_half_a_unit_and_what_only_looks_right_fails(
    n: int, dtype: str
) -> None:
    x = normal(4, n, dtype=dtype, seed=n)
    exact = torch.softmax(x.double(), -1).to(x.dtype)
    verdict = accuracy(softmax, softmax.case(dtype, M=4, N=n), [x], exact)
    # torch rounds float64 to float16 by way of float32
    assert verdict.wrong is None and verdict.max_ulp is not None and verdict.max_ulp <= 0.501
    assert "zero" in str(wrong(softmax, [x], torch.zeros_like(x)))
    assert wrong(softmax, [x], exact * 1.05)
    if n > 1:
        assert wrong(softmax, [x], torch.full_like(x, 1 / n))
        assert wrong(softmax, [x], torch.softmax(x.flip(-1).double(), -1).to(x.dtype)), "a stale output"
    for column in {0, n // 2, n - 1} if n > 1 else ():
        unwritten = exact.clone()
        unwritten[:, column] = float("nan")
        assert f"column {column}" in str(wrong(softmax, [x], unwritten))


def test_a_sequential_float32_sum_passes() -> None:
    """A thread per row adds N terms one after the other; that is legitimate arithmetic."""
    x = normal(2, 32768)
    e = (x - x.amax(-1, keepdim=True)).exp()
    total = torch.stack([e[i].cumsum(0)[-1] for i in range(2)])  # cumsum rounds at every step
    assert wrong(softmax, [x], e / total[:, None]) is None


# -- units in the last place


def test_an_error_just_above_the_bound_reads_as_more_than_it() -> None:
    unit = 2.0**-23
    own_scale = {"tolerance": 0, "output_ulps": 1, "scale": lambda case, reference, x: reference}
    off = made("off", {"x": MATRIX}, MATRIX, lambda x: x - 0.0002 * unit, **own_scale)
    x = torch.tensor([[1.5]])
    reason = str(wrong(off, [x], x + unit))
    assert reason.endswith("(1.0002 ulp, 1 allowed); to allow more, raise output_ulps of operator tolerances-off")


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1.0, torch.float32, 2.0**-23),
        (0.0, torch.float16, 2.0**-24),
        (0.0, torch.float32, 2.0**-149),
        (1.0, torch.float8_e4m3fn, 2.0**-3),
        (448.0, torch.float8_e4m3fn, 32.0),
        (1.0, torch.float64, 2.0**-52),
    ],
)
def test_ulp_is_the_spacing_of_the_dtype(value: float, dtype: torch.dtype, expected: float) -> None:
    assert ulp(torch.tensor([value], dtype=torch.float64), dtype).item() == expected


fp8 = made(
    "fp8", {"x": Declared("M", dtype="float32")}, Declared("M", dtype="float8_e4m3fn", ulps=1), lambda x: x, tolerance=2
)


def wrong_in_fp8(value: float, bits: int) -> str | None:
    y = torch.tensor([bits], dtype=torch.uint8).view(torch.float8_e4m3fn)
    return wrong(fp8, [torch.tensor([value])], y)


@pytest.mark.parametrize("value", [-448.0, 463.9, 464.1])
def test_a_format_without_infinity_may_saturate_or_give_nan_only_beyond_its_largest_number(value: float) -> None:
    """448 is the largest; numbers from 464 on are rounded past it."""
    sign = 0x80 if value < 0 else 0
    assert wrong_in_fp8(value, 0x7E | sign) is None
    assert wrong_in_fp8(value, 0xFE ^ sign)
    assert (wrong_in_fp8(value, 0x7F | sign) is None) == (value > 464)


def test_the_hint_names_the_declaration_of_the_tensor_if_it_has_its_own() -> None:
    assert str(wrong_in_fp8(1.0, 0x3A)).endswith("; to allow more, raise ulps of y in operator tolerances-fp8")


def test_only_errors_of_both_signs_point_to_a_shorter_format() -> None:
    """A factor, such as that of another epsilon, makes all magnitudes too large, or all too small."""
    twice, x = made("doubled", {"x": MATRIX}, MATRIX, lambda x: x * 2), normal(8, 64)
    assert "computing in bfloat16" in str(wrong(twice, [x], (x * 2).bfloat16().float()))
    assert "computing in" not in str(wrong(twice, [x], x * 2.01))
    assert "computing in" not in str(wrong(twice, [x], (x * 2).bfloat16().float().index_fill_(1, torch.tensor(3), 0)))
