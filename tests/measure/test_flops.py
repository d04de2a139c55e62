"""The compute ceiling, and the share of the speed of light where a ceiling is not known."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from in_process import MadeUpInstruments, case_run
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor as Declared
from kbench.contract.tensor import integers
from kbench.results.case import Case

SIZES = {"M": 16, "N": 16, "K": 32}


def product(flops: Callable[[Case], int], **of_b: object) -> Operator:
    inputs = {"a": Declared("M", "K"), "b": Declared("K", "N", **of_b)}  # type: ignore[arg-type]
    operator = Operator(
        "product", ("M", "N", "K"), inputs, {"c": Declared("M", "N")}, lambda a, b: a @ b.double(), flops=flops
    )

    @operator.provider("torch")
    def multiply(a: Tensor, b: Tensor) -> Tensor:
        return a @ b

    return operator


def count(case: Case) -> int:
    return 2 * case.M * case.N * case.K


@pytest.mark.parametrize(
    ("flops", "gbps", "tflops", "known"),
    [(count, 10.0, None, False), (count, None, 0.05, False), (lambda case: 0, 10.0, None, True)],
)
def test_without_a_ceiling_that_it_needs_the_share_is_not_known(
    no_operators: None, flops: Callable[[Case], int], gbps: float | None, tflops: float | None, known: bool
) -> None:
    row = case_run(product(flops), instruments=MadeUpInstruments(gbps, tflops), **SIZES).run()[0]
    assert row.tflops is not None and (row.sol is not None) is known


@pytest.mark.parametrize(("of_b", "shorter"), [({"dtype": "int8", "fill": integers(5)}, True), ({}, False)])
def test_inputs_of_a_shorter_dtype_may_be_faster(no_operators: None, of_b: dict[str, object], shorter: bool) -> None:
    run = case_run(product(count, **of_b), dtype="bfloat16", **SIZES)
    run.run()
    assert run.shorter is shorter
