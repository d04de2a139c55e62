"""`kbench check` of an operator that brings no edge inputs of its own."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from common import Kbench
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor as Declared
from kbench.measure.correctness.common_edges import edge_names
from kbench.measure.edge_cases import check_edges
from kbench.measure.machine.device import Device
from kbench.protocol import Configuration, EdgeResult
from kbench.registry import operator


def _reference(x: Tensor, w: Tensor) -> Tensor:
    return x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * w


rms = Operator(
    "edges-rmsnorm",
    axes=("M", "N"),
    inputs={"x": Declared("M", "N"), "w": Declared("N")},
    outputs={"y": Declared("M", "N")},
    reference=_reference,
)


@rms.provider("torch")
def right(x: Tensor, w: Tensor) -> Tensor:
    return F.rms_norm(x, x.shape[1:], w, eps=1e-6)


@rms.provider("as-if-dense")
def as_if_dense(x: Tensor, w: Tensor) -> Tensor:
    return right(x.as_strided(x.shape, (x.shape[1], 1)), w)


@rms.provider("zero-for-nan")
def zero_for_nan(x: Tensor, w: Tensor) -> Tensor:
    return right(x, w).nan_to_num(0.0)


@rms.provider("two-rows")
def two_rows(x: Tensor, w: Tensor) -> Tensor:
    if x.shape[0] < 2:
        raise ValueError("at least two rows")
    return right(x, w)


@rms.provider("no-arguments")
def no_arguments() -> Tensor:
    return torch.zeros(1)


def outcomes(
    provider: str, of: Operator = rms, m: int = 8, n: int = 32, dtype: str = "float32", **words: str
) -> dict[str, str]:
    """By edge: `checked`, or the status and the reason."""
    found: dict[str, str] = {}

    def note(event: object) -> None:
        if isinstance(event, EdgeResult):
            found[event.edge] = f"{event.status.value} {event.reason}".strip()

    check_edges(
        of,
        of.case(dtype, M=m, N=n, **words),
        [Configuration(provider, {})],
        seed=0,
        build_timeout_s=60,
        device=Device(),
        emit=note,
    )
    return found


ALL = ["random", "strided rows", "transposed", "large offset", "one NaN", "M=1", "N=1", "M=0"]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_torch_is_right_on_all_of_them(dtype: str) -> None:
    assert outcomes("torch", dtype=dtype) == dict.fromkeys(ALL, "checked")


def test_each_finds_its_kind_of_fault() -> None:
    def failing(provider: str) -> set[str]:
        return {edge for edge, found in outcomes(provider).items() if found != "checked"}

    assert failing("as-if-dense") == {"strided rows", "transposed"}
    assert failing("zero-for-nan") == {"one NaN"}
    assert failing("two-rows") == {"M=1", "M=0"}


def test_gradients_that_a_backward_kernel_receives_have_gaps_too() -> None:
    double = Operator(
        "edges-double",
        axes=("M", "N"),
        inputs={"x": Declared("M", "N")},
        outputs={"y": Declared("M", "N")},
        reference=lambda x: 2 * x,
        gradients=("x",),
    )
    double.provider("right")(lambda x: 2 * x)
    double.provider("as-if-dense")(lambda x: 2 * x)
    double.backward("as-if-dense")(lambda dy, x: 2 * dy.as_strided(dy.shape, (dy.shape[1], 1)))
    assert outcomes("right", double, mode="backward") == dict.fromkeys(ALL, "checked")
    found = outcomes("as-if-dense", double, mode="backward")
    assert {edge for edge, each in found.items() if each != "checked"} == {"strided rows", "transposed"}


def test_an_edge_that_the_operator_does_not_take_is_left_out() -> None:
    even = Operator(
        "edges-even",
        axes=("M", "N"),
        inputs={"x": Declared("M", 2, "N/2")},
        outputs={"y": Declared("M", "N", 1)},
        reference=lambda x, *, N: x.flatten(1).unflatten(1, (N, 1)),
        tolerance=1,
    )
    even.provider("right")(lambda x: x.flatten(1).unsqueeze(2).clone())
    assert list(outcomes("right", even)) == [edge for edge in ALL if edge != "N=1"]


def test_an_operator_with_edges_of_its_own_has_no_others() -> None:
    assert edge_names(operator("softmax")) == list(operator("softmax").edges)


def test_a_function_that_takes_other_arguments_is_named_with_its_place() -> None:
    found = outcomes("no-arguments")["random"]
    line = no_arguments.__code__.co_firstlineno
    assert found.startswith("error TypeError: no_arguments() takes 0 positional arguments but 2 were given")
    assert found.endswith(f" at test_common_edges.py:{line}; kbench calls it as no_arguments(x, w)")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "says"),
    [
        ('kbench.Operator("softmax", ("M",), {"x": x}, {"y": x}, max)', "operator 'softmax' exists already"),
        ('kbench.Operator("mine", ("M",), {"x": x}, {"y": x}, max, dtypes=("int3",))', "unknown dtype 'int3'"),
    ],
)
def test_an_operator_that_cannot_be_is_refused_with_its_place(kbench: Kbench, tmp_path, call: str, says: str) -> None:
    (tmp_path / "mine.py").write_text(f"import kbench\nx = kbench.Tensor('M')\n{call}\n")
    done = kbench("list", "softmax", "--plugin", "mine.py")
    assert done.returncode == 1
    assert says in done.stderr and "mine.py:3: ValueError" in done.stderr
    assert "torch-native" in done.stdout  # kbench's own is what it was
