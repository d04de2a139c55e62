"""Which cases an operator is tried on before anything is measured."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

from kbench.execute.prepare import try_operator
from kbench.protocol import OperatorInfo
from kbench.results.case import Case

INFO = OperatorInfo(
    axes=("N",),
    choices={"mode": ("forward", "backward")},
    dtypes=("float32", "bfloat16"),
    scalars={"causal": False},
    gradients=("x",),
)


def test_the_smallest_case_of_each_kind_is_tried_and_those_with_gradients_first() -> None:
    values = product((64, 8), (False, True), ("forward", "backward"), INFO.dtypes)
    cases = [Case("twice", {"N": n, "causal": causal, "mode": mode}, dtype) for n, causal, mode, dtype in values]
    info = SimpleNamespace(**vars(INFO), tensor_bytes=lambda case: case.N)
    plan: Any = SimpleNamespace(info=info, cases=cases, tasks=[SimpleNamespace(case=case) for case in cases])
    tried: list[Any] = []
    try_operator(tried.append, plan)
    assert {task.case for task in tried} == {case for case in cases if case.axes["N"] == 8}
    assert [task.case.axes["mode"] for task in tried] == ["backward"] * 4 + ["forward"] * 4
