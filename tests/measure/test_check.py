"""The tolerance: honest results pass, everything that only looks right fails, at every N and dtype."""

from __future__ import annotations

import pytest
import torch

from kbench.contract.operator import Operator
from kbench.contract.registry import operator
from kbench.contract.tensor import Tensor
from kbench.measure.correctness.check import accuracy
from kbench.measure.correctness.elements import ulp
from kbench.results.case import Case

DTYPES = ["float32", "float16", "bfloat16"]


def softmax_case(m: int, n: int, dtype: str) -> tuple[Case, torch.Tensor]:
    x = torch.randn(m, n, generator=torch.Generator().manual_seed(n), dtype=torch.float32)
    return Case("softmax", {"M": m, "N": n}, dtype), x.to(getattr(torch, dtype))


def judge(case: Case, x: torch.Tensor, output: torch.Tensor) -> str | None:
    return accuracy(operator("softmax"), case, [x], output).wrong


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 127, 65536])
def test_exactly_rounded_result_passes_within_half_a_unit(n: int, dtype: str) -> None:
    case, x = softmax_case(4, n, dtype)
    exact = torch.softmax(x.double(), -1).to(x.dtype)
    found = accuracy(operator("softmax"), case, [x], exact)
    assert found.wrong is None
    assert found.max_ulp <= 0.501  # torch rounds float64 to float16 by way of float32


def test_a_sequential_float32_sum_passes() -> None:
    """A thread per row adds N terms one after the other; that is legitimate arithmetic."""
    case, x = softmax_case(2, 32768, "float32")
    e = (x - x.amax(-1, keepdim=True)).exp()
    total = torch.stack([e[i].cumsum(0)[-1] for i in range(2)])  # cumsum rounds at every step
    assert judge(case, x, e / total[:, None]) is None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [2, 1000, 65536])
def test_zeros_constants_and_stale_outputs_fail(n: int, dtype: str) -> None:
    case, x = softmax_case(2, n, dtype)
    right = torch.softmax(x.float(), -1).to(x.dtype)
    stale = torch.softmax(x.flip(-1).float(), -1).to(x.dtype)
    assert "zero" in str(judge(case, x, torch.zeros_like(x)))
    assert judge(case, x, torch.full_like(x, 1 / n))
    assert judge(case, x, stale)
    assert judge(case, x, right * 1.05)
    for column in (0, n // 2, n - 1):
        unwritten = right.clone()
        unwritten[:, column] = float("nan")
        assert f"column {column}" in str(judge(case, x, unwritten))


def test_the_sentence_says_where_what_and_how_much() -> None:
    case, x = softmax_case(3, 8, "float32")
    output = torch.softmax(x, -1)
    output[1:, 5] = 0
    sentence = str(judge(case, x, output))
    assert sentence.startswith("2 of 24 elements zero, all in column 5; first at [1, 5]: 0 instead of 0.")
    assert "ulp" in sentence


@pytest.mark.parametrize("rows", [3, 5, 64])
def test_a_weight_per_column_is_no_row(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Whatever the shape: as many rows as columns, more or fewer, in one slice or several."""
    scaled = Operator(
        name=f"scaled-{rows}",
        axes=["R", "C"],
        inputs={"x": Tensor("R", "C"), "weight": Tensor("C")},
        outputs={"y": Tensor("R", "C")},
        reference=lambda x, weight: x * weight,
        tolerance=1,
        rows="R",
    )
    x, weight = torch.randn(rows, 5), torch.randn(5)
    case = Case(scaled.name, {"R": rows, "C": 5}, "float32")
    for elements in (2**25, 10):
        monkeypatch.setattr("kbench.measure.correctness.expected.CHUNK_ELEMENTS", elements)
        assert accuracy(scaled, case, [x, weight], x * weight).wrong is None
        assert accuracy(scaled, case, [x, weight], x + weight).wrong


def test_an_error_just_above_the_bound_reads_as_more_than_it() -> None:
    unit = 2.0**-23
    off = Operator(
        "off",
        ["N"],
        {"x": Tensor("N")},
        {"y": Tensor("N")},
        lambda x: x - 0.0002 * unit,
        tolerance=0,
        scale=lambda case, reference, x: reference,
        output_ulps=1,
    )
    x = torch.tensor([1.5])
    wrong = str(accuracy(off, Case("off", {"N": 1}, "float32"), [x], x + unit).wrong)
    assert wrong.endswith("(1.0002 ulp, 1 allowed); to allow more, raise output_ulps of operator off")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_special_values_must_stand_where_the_reference_has_them(value: float) -> None:
    case, x = softmax_case(4, 16, "float32")
    x[2, 3] = value
    torch_says = torch.softmax(x, -1)
    assert torch_says[2].isnan().all()
    assert judge(case, x, torch_says) is None
    zeroed = torch_says.nan_to_num(0.0)
    assert "16 of 64 elements zero" in str(judge(case, x, zeroed))
    poisoned = torch.full_like(x, float("nan"))
    assert "48 of 64 elements NaN" in str(judge(case, x, poisoned))


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1.0, torch.float32, 2.0**-23),
        (0.0, torch.float16, 2.0**-24),
        (0.0, torch.float32, 2.0**-149),
    ],
)
def test_ulp_is_the_spacing_of_the_dtype(value: float, dtype: torch.dtype, expected: float) -> None:
    assert ulp(torch.tensor([value], dtype=torch.float64), dtype).item() == expected


fp8 = Operator(
    "test-check-fp8",
    axes=("M",),
    inputs={"x": Tensor("M", dtype="float32")},
    outputs={"y": Tensor("M", dtype="float8_e4m3fn", ulps=1)},
    reference=lambda x: x,
    tolerance=2,
)


def judge_fp8(value: float, bits: int) -> str | None:
    x, y = torch.tensor([value]), torch.tensor([bits], dtype=torch.uint8).view(torch.float8_e4m3fn)
    return accuracy(fp8, fp8.case(M=1), [x], y).wrong


@pytest.mark.parametrize("value", [-448.0, 463.9, 464.1])
def test_a_format_without_infinity_may_saturate_or_give_nan_only_beyond_its_largest_number(value: float) -> None:
    """448 is the largest; numbers from 464 on are rounded past it."""
    sign = 0x80 if value < 0 else 0
    assert judge_fp8(value, 0x7E | sign) is None
    assert judge_fp8(value, 0xFE ^ sign)
    assert (judge_fp8(value, 0x7F | sign) is None) == (value > 464)


def test_the_hint_names_the_declaration_of_the_tensor_if_it_has_its_own() -> None:
    assert str(judge_fp8(1.0, 0x3A)).endswith("; to allow more, raise ulps of y in operator test-check-fp8")
