"""TFLOP/s, the compute ceiling and the share of the speed of light."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from in_process import MadeUpInstruments, case_run
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor as Declared
from kbench.contract.tensor import integers
from kbench.measure import ceilings
from kbench.measure.machine.device import Device
from kbench.results.case import Case
from kbench.results.row import Row

pytestmark = pytest.mark.slow  # each test measures several cases


def product(name: str, flops: Callable[[Case], Any] | None, **of_b: Any) -> Operator:
    inputs = {"a": Declared("M", "K"), "b": Declared("K", "N", **of_b)}
    operator = Operator(
        f"product-{name}", ("M", "N", "K"), inputs, {"c": Declared("M", "N")}, lambda a, b: a @ b.double(), flops=flops
    )

    @operator.provider("torch")
    def multiply(a: Tensor, b: Tensor) -> Tensor:
        return a @ b

    return operator


def count(case: Case) -> int:
    return 2 * case.M * case.N * case.K


OPERATORS = {
    "right": product("right", count),
    "uncounted": product("uncounted", None),
    "zero": product("zero", lambda case: 0),
    "int8": product("int8", count, dtype="int8", fill=integers(5)),
}
SIZES = {"M": 16, "N": 16, "K": 32}


def row(name: str, *, ceiling_gbps: float | None = 10.0, ceiling_tflops: float | None = 0.05) -> Row:
    """The row of torch under ceilings that are made up."""
    instruments = MadeUpInstruments(ceiling_gbps, ceiling_tflops)
    return case_run(OPERATORS[name], instruments=instruments, **SIZES).run()[0]


def test_without_a_ceiling_that_it_needs_the_share_is_not_known() -> None:
    unknown = row("right", ceiling_tflops=None)
    assert unknown.tflops and unknown.sol is None and unknown.ceiling_tflops is None
    assert row("right", ceiling_gbps=None).sol is None
    assert row("zero", ceiling_tflops=None).sol is not None


def test_inputs_of_a_shorter_dtype_allow_faster_arithmetic() -> None:
    for name, shorter in (("int8", True), ("right", False)):
        assert case_run(OPERATORS[name], dtype="bfloat16", **SIZES).has_shorter_inputs() is shorter


def test_the_ceiling_is_the_best_product(monkeypatch: pytest.MonkeyPatch) -> None:
    speeds_of_forms = []

    def speeds(device: Device, kind: torch.dtype, form: ceilings.Form) -> list[float]:
        speeds_of_forms.append(list(whole(device, kind, form)))
        return speeds_of_forms[-1]

    whole = ceilings._speeds
    monkeypatch.setattr(ceilings, "_speeds", speeds)
    assert ceilings.ceiling_tflops(Device(), "float32") == max(map(max, speeds_of_forms)) > 0


def test_a_dtype_that_torch_cannot_multiply_has_no_ceiling() -> None:
    assert ceilings.ceiling_tflops(Device(), "bool") is None
