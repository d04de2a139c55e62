"""An operator that says neither scale nor output_ulps: right kernels pass, in every dtype and shape, and wrong ones do not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from families import FAMILIES
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor as Declared
from kbench.contract.tensor import integers
from kbench.measure.correctness.check import accuracy
from kbench.results.case import Case

DTYPES = ["float32", "float16", "bfloat16"]

SHAPES = [(32, 32), (32, 64), (1, 1), (7, 1), (3, 257)]
"""Rows and columns; square ones among them, where an input could be taken for another by its shape."""


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FAMILIES)
def test_torch_is_right(name: str, dtype: str) -> None:
    family = FAMILIES[name]
    for m, n in SHAPES:
        inputs = family.draw(m, n, dtype)
        assert family.wrong(m, n, dtype, inputs, family.right(*inputs)) is None, (m, n)


def dropped_column(x: Tensor) -> Tensor:
    out = x.clone()
    out[..., -1] = 0
    return out


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", FAMILIES)
def test_wrong_outputs_are_found(name: str, dtype: str) -> None:
    family = FAMILIES[name]
    for m, n in [(32, 32), (16, 257)]:
        inputs, others = family.draw(m, n, dtype), family.draw(m, n, dtype, seed=1)
        right = family.right(*inputs)
        outputs = {"stale": family.right(*others), "no last column": dropped_column(right), "5 % more": right * 1.05}
        for fault, output in outputs.items():
            assert family.wrong(m, n, dtype, inputs, output), (fault, m, n)


MISSING: dict[str, Callable[..., Tensor]] = {
    "layernorm": lambda x, w, b: F.layer_norm(x, x.shape[1:], w),
    "matmul": lambda a, b: a[:, :-1] @ b[:-1],
    "cross-entropy": lambda x, labels: (
        x[:, :-1].exp().sum(-1).log() - x.gather(1, labels[:, None])[:, 0]  # the last word is missing
    ),
}


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_term_is_found(name: str) -> None:
    """In float32 at every size; in bfloat16 one term of a thousand is less than what the output is rounded by."""
    family = FAMILIES[name]
    for m, n, dtype in [(32, 32, "float32"), (64, 1024, "float32"), (32, 32, "bfloat16")]:
        inputs = family.draw(m, n, dtype)
        assert family.wrong(m, n, dtype, inputs, MISSING[name](*inputs)), (m, n, dtype)


def test_small_errors_are_found_in_float32() -> None:
    """One ten thousandth too much, and the digits of bfloat16."""
    for name, family in FAMILIES.items():
        inputs = family.draw(48, 48, "float32")
        right = family.right(*inputs)
        for output in (right * 1.0001, right.bfloat16().float()):
            assert family.wrong(48, 48, "float32", inputs, output), name


def test_one_pass_variance_is_found_on_a_large_offset() -> None:
    x, w, b = FAMILIES["layernorm"].draw(16, 512, "float32")
    x = x + 8000

    def one_pass(x: Tensor) -> Tensor:
        mean = x.mean(-1, keepdim=True)
        return (x - mean) / ((x * x).mean(-1, keepdim=True) - mean * mean + 1e-5).sqrt() * w + b

    assert FAMILIES["layernorm"].wrong(16, 512, "float32", (x, w, b), F.layer_norm(x, (512,), w, b)) is None
    assert FAMILIES["layernorm"].wrong(16, 512, "float32", (x, w, b), one_pass(x))


def elementwise(name: str, reference: Callable[..., Tensor], **fields: object) -> Operator:
    matrix = Declared("M", "N")
    tensors: dict[str, object] = {"inputs": {"x": matrix}, "outputs": {"y": matrix}}
    return Operator(
        f"elementwise-{name}",
        axes=("M", "N"),
        reference=reference,
        tolerance=16,
        **(tensors | fields),  # type: ignore[arg-type]
    )


def wrong(operator: Operator, inputs: tuple[Tensor, ...], output: Tensor) -> str | None:
    m, n = inputs[0].shape
    return accuracy(operator, Case(operator.name, {"M": m, "N": n}, str(output.dtype)[6:]), inputs, output).wrong


def test_terms_that_cancel_on_the_way_count_too() -> None:
    """1 + tanh(u) is as good as zero for x = -8: no input is large, but a float32 kernel has rounded a 1."""
    gelu = elementwise("gelu", lambda x: 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x**3))))
    x = torch.linspace(-8, 8, 4096).reshape(4, 1024)
    right = F.gelu(x, approximate="tanh")
    assert wrong(gelu, (x,), right) is None
    assert wrong(gelu, (x,), F.gelu(x))  # erf is not tanh
    assert wrong(gelu, (x,), F.relu(x))


def test_a_kernel_that_rounds_twice_is_right_unless_the_operator_says_otherwise() -> None:
    def reference(x: Tensor) -> Tensor:
        return x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * 1.7

    def twice(x: Tensor) -> Tensor:
        rounded = (x.float() / (x.float().pow(2).mean(-1, keepdim=True) + 1e-6).sqrt()).to(x.dtype)
        return rounded * torch.tensor(1.7, dtype=x.dtype)

    x = torch.randn(64, 512, generator=torch.Generator().manual_seed(0)).bfloat16()
    strict = elementwise("strict", reference, output_ulps=1, scale=lambda case, reference, x: reference)
    assert wrong(elementwise("twice", reference), (x,), twice(x)) is None
    said = str(wrong(strict, (x,), twice(x)))
    assert said.endswith("; to allow more, raise output_ulps of operator elementwise-strict")


def test_a_value_that_the_dtype_cannot_hold_may_be_infinite() -> None:
    product = elementwise("product", lambda x: x * 1000)
    x = torch.full((2, 4), 100.0, dtype=torch.float16)
    assert wrong(product, (x,), x * 1000) is None
    assert wrong(product, (x,), -(x * 1000))
    assert wrong(product, (x,), torch.zeros_like(x))


def test_references_that_jump_do_not_let_everything_pass() -> None:
    """Labels that come as floating-point numbers, and a comparison with the largest element."""
    picked = elementwise(
        "picked",
        lambda x, labels: x.gather(1, labels.long()[:, None])[:, 0],
        inputs={"x": Declared("M", "N"), "labels": Declared("M", fill=integers("N"))},
        outputs={"y": Declared("M")},
    )
    largest = elementwise("largest", lambda x: torch.where(x == x.amax(-1, keepdim=True), x, x * 0.5))
    x = torch.randn(16, 8, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(16.0) % 8
    right = x.gather(1, labels.long()[:, None])[:, 0]
    assert wrong(picked, (x, labels), right) is None
    assert wrong(picked, (x, labels), right * 1.001)
    output = torch.where(x == x.amax(-1, keepdim=True), x, x * 0.5)
    assert wrong(largest, (x,), output) is None
    assert wrong(largest, (x,), output * 1.001)


def test_the_same_inputs_have_the_same_verdict() -> None:
    family = FAMILIES["matmul"]
    inputs = family.draw(16, 64, "float32")
    case = Case(family.operator.name, {"M": 16, "N": 64}, "float32")
    torch.manual_seed(1)
    first = accuracy(family.operator, case, inputs, family.right(*inputs))
    torch.manual_seed(2)
    assert accuracy(family.operator, case, inputs, family.right(*inputs)) == first
