"""What is wrong with an operator is said of the operator, with the place in its file, and of no provider."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from in_process import measured
from torch import Tensor

from kbench.contract.operator import Operator, registered
from kbench.contract.tensor import Tensor as Declared
from kbench.contract.tensor import integers
from kbench.measure.correctness.definition import OperatorFault
from kbench.measure.correctness.operator_trial import attempt
from kbench.measure.machine.device import Device

pytestmark = pytest.mark.usefixtures("no_operators")


def faulty(**fields: Any) -> Operator:
    """An operator with right providers, and a fault of its own. `fill` is that of its input."""
    matrix = Declared("M", "N")
    sound = {
        "inputs": {"x": Declared("M", "N", fill=fields.pop("fill", None))},
        "outputs": {"y": matrix},
        "tolerance": 4,
    }
    made = Operator("faulty", ("M", "N"), **{"reference": lambda x: x * 2} | sound | fields)  # type: ignore[arg-type]
    made.provider("right")(lambda x: x * 2)
    made.provider("also-right")(lambda x: x + x)
    return made


def fault_of(made: Operator) -> OperatorFault | None:
    """What a trial of a case finds, in mode backward if the operator has gradients."""
    mode = {"mode": "backward"} if made.gradients else {}
    return attempt(made, made.case(M=4, N=8, **mode), Device(), seed=0)


def largest(x: Tensor) -> Tensor:
    return x * 2 + x.amax()


class Raises(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: object, d: Tensor) -> Tensor:
        raise ValueError("no gradient today")


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("the fill of x fails", {"fill": lambda case, draw: draw.normal(case.MM)}),
    ("the fill of x fails", {"fill": integers("N - 8")}),  # there is no number in this range
    ("the fill of x returned NoneType", {"fill": lambda case, draw: None}),
    ("the fill of x returned shape (8, 4)", {"fill": lambda case, draw: draw.normal(8, 4)}),
    ("the fill of x returned int64", {"fill": lambda case, draw: draw.integers(0, 9, 4, 8)}),
    ("reference returned str", {"reference": lambda x: "twice"}),
    ("reference returned bool for y", {"reference": lambda x: x > 0}),
    ("reference returned a tensor of layout torch.sparse_coo for y", {"reference": lambda x: x.to_sparse()}),
    ("reference returned a tensor on device meta for y", {"reference": lambda x: x.to("meta")}),
    ("reference returned 2 values", {"reference": lambda x: (x, x)}),
    ("reference returned a list with NoneType in the place of y", {"reference": lambda x: [None]}),
    ("reference changed its input x in place", {"reference": lambda x: x.mul_(2)}),
    ("reference changed its input x in place", {"reference": lambda x: x.mul_(2), "gradients": "x"}),
    ("reference returned two different results for y on", {"reference": lambda x: x + torch.rand_like(x)}),
    ("the values that reference returned for y changed", {"reference": lambda x: x - x.mean(0), "rows": "M"}),
    ("reference returned shape (0, 8) for y when", {"reference": lambda x: x[: len(x) // 4 * 4], "rows": "M"}),
    ("no output of the reference has a gradient", {"reference": lambda x: x.detach() * 2, "gradients": "x"}),
    ("the gradient of the reference fails", {"reference": lambda x: Raises.apply(x), "gradients": "x"}),
    ("edges['odd'] fails", {"edges": {"odd": lambda case, x: 1 / 0}}),
    ("edges['odd'] returned Tensor", {"edges": {"odd": lambda case, x: x}}),
    ("edges['odd'] returned float64 for x", {"edges": {"odd": lambda case, x: (x.double(),)}}),
    ("reference (on the edge inputs 'odd') fails", {"edges": {"odd": lambda case, x: (x[:0],)}, "reference": largest}),
    ("flops returned -1", {"flops": lambda case: -1}),
    ("flops fails", {"flops": lambda case: case.K}),
    ("check returned False", {"check": lambda *tensors: False}),
    ("check returned ' '", {"check": lambda *tensors: " "}),
    ("check changed the input x in place", {"check": lambda c, inputs, o, e: inputs["x"].zero_()}),
    ("check changed the expected output y in place", {"check": lambda c, i, o, expected: expected["y"].sub_(1)}),
    ("tolerance returned nan", {"tolerance": lambda case: float("nan")}),
    ("scale is NaN where the output is finite", {"scale": lambda case, y, x: y * float("nan")}),
    ("scale fails", {"scale": lambda case, y, x: y[None]}),
    ("scale fails", {"scale": lambda case, y, x: y / case.K}),
]


@pytest.mark.parametrize(("says", "fields"), WRONG, ids=[says for says, _ in WRONG])
def test_a_fault_is_found_before_anything_is_timed(says: str, fields: dict[str, Any]) -> None:
    fault = fault_of(faulty(**fields))
    assert fault and fault.what.startswith(f"operator faulty: {says} ") and "M=4 N=8 " in fault.what
    assert fault.where.startswith(f"{Path(__file__)}:")


def test_a_reference_may_round_to_float32_and_to_the_8_bits_that_its_output_declares() -> None:
    assert fault_of(faulty(reference=lambda x: x.float() * 2)) is None
    eighths = {"y": Declared("M", "N", dtype="float8_e4m3fn")}
    registered.clear()
    assert fault_of(faulty(outputs=eighths, reference=lambda x: x.to(torch.float8_e4m3fn))) is None


def test_a_fault_of_one_case_alone_is_still_the_operators() -> None:
    wide = faulty(reference=lambda x: x * 2 if x.shape[1] < 100 else x.missing)
    for row in measured(wide, M=4, N=128).values():
        assert row.status.value == "error" and "while" not in row.reason
        assert row.reason.startswith("operator faulty: reference fails on M=4 N=128 float32")
        assert "test_operator_faults.py:" in row.reason


def test_a_trial_of_a_large_case_is_small() -> None:
    """Of a sweep with one large case, the trial would otherwise compute the large reference, for minutes on a host."""
    seen: list[int] = []
    made = faulty(reference=lambda x: seen.extend(x.shape) or x * 2)
    assert attempt(made, made.case(M=100_000, N=100_000), Device(), seed=0) is None
    assert max(seen) <= 64
