"""Which cases an operator is tried on before anything is measured."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from kbench.config.resolve import Sweep
from kbench.execute.prepare import find_trials
from kbench.protocol import OperatorInfo, Task
from kbench.results.case import Case

INFO = OperatorInfo(
    axes=("M", "N"),
    choices={"kind": ("none", "tanh"), "mode": ("forward", "backward", "full")},
    dtypes=("float32", "bfloat16"),
    scalars={"eps": 0.0, "causal": False},
    gradients=("x",),
)
SWEEP = cast(Sweep, SimpleNamespace(info=INFO))


def tasks(dtypes: str = "float32", **swept: list[Any]) -> list[Task]:
    """A task for each size and each combination of the other values."""
    values: list[dict[str, Any]] = [{"M": 4, "N": n, "eps": 0.0, "causal": False, "kind": "none"} for n in (64, 8)]
    for name, words in {"mode": ["forward"], **swept}.items():
        values = [{**each, name: word} for each in values for word in words]
    cases = [Case("twice", each, dtype) for dtype in dtypes.split() for each in values]
    return [cast(Task, SimpleNamespace(case=case)) for case in cases]


def tried(tasks: list[Task]) -> list[tuple[Any, ...]]:
    found = [task.case for task in find_trials(tasks, SWEEP)]
    assert all(case.axes["N"] == 8 for case in found), "the smallest of its kind"
    return [(case.dtype, *(case.axes[name] for name in ("eps", "causal", "kind", "mode"))) for case in found]


def test_each_value_is_tried_and_a_trial_of_a_gradient_stands_for_the_forward_pass() -> None:
    many = {"eps": [0.0, 1e-6, 1e-5], "causal": [False, True], "kind": ["none", "tanh"]}
    found = tried(tasks("float32 bfloat16", mode=["forward", "backward", "full"], **many))
    assert len(found) < 8
    values = [set(column) for column in zip(*found, strict=True)]
    assert values == [
        {"float32", "bfloat16"},
        {0.0, 1e-6, 1e-5},
        {False, True},
        {"none", "tanh"},
        {"backward", "full"},
    ]
