"""`kbench check` of an operator that brings no edge inputs of its own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from common import Kbench
from in_process import checked_edges
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.registry import operator
from kbench.contract.tensor import Tensor as Declared
from kbench.measure.correctness.common_edges import edge_names
from kbench.measure.edge_cases import check_edges
from kbench.measure.machine.device import Device
from kbench.protocol import Configuration, Rows
from kbench.results.case import Case


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


@rms.provider("whole-vectors")
def whole_vectors(x: Tensor, w: Tensor) -> Tensor:
    if any(each.data_ptr() % 16 for each in (x, w)):
        raise RuntimeError("misaligned address")
    return right(x, w)


@rms.provider("zero-for-nan")
def zero_for_nan(x: Tensor, w: Tensor) -> Tensor:
    return right(x, w).nan_to_num(0.0)


@rms.provider("no-eps")
def no_eps(x: Tensor, w: Tensor) -> Tensor:
    return (x.float() * x.float().square().mean(-1, keepdim=True).rsqrt() * w.float()).to(x.dtype)


@rms.provider("squares-in-float16")
def squares_in_float16(x: Tensor, w: Tensor) -> Tensor:
    r = (x.square().float().mean(-1, keepdim=True) + 1e-6).rsqrt()
    return (x.float() * r * w.float()).to(x.dtype)


@rms.provider("two-rows")
def two_rows(x: Tensor, w: Tensor) -> Tensor:
    if x.shape[0] < 2:
        raise ValueError("at least two rows")
    return right(x, w)


@rms.provider("no-arguments")
def no_arguments() -> Tensor:
    return torch.zeros(1)


def outcomes(
    provider: str, of: Operator = rms, m: int | None = 8, n: int = 32, dtype: str = "float32", **words: str
) -> dict[str, str]:
    """By edge: `checked`, or the status and the reason."""
    found: dict[str, str] = {}

    def note(event: object) -> None:
        if isinstance(event, Rows):
            [row] = event.rows
            found[row.edge] = f"{row.status.value} {row.reason}".strip()

    check_edges(
        of,
        of.case(dtype, **({} if m is None else {"M": m}), N=n, **words),
        [Configuration(provider, {})],
        seed=0,
        build_timeout_s=60,
        device=Device(),
        emit=note,
    )
    return found


LAYOUTS, SIZES = ["random", "strided rows", "transposed", "odd offset"], ["M=1", "N=1", "M=0"]
VALUES = ["large offset", "zeros", "large values", "one NaN"]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_torch_is_right_on_all_of_them(dtype: str) -> None:
    large = ["large values"] if dtype == "float16" else []
    names = [*LAYOUTS, "large offset", "zeros", *large, "one NaN", *SIZES]
    assert outcomes("torch", dtype=dtype) == dict.fromkeys(names, "checked")


def test_each_finds_its_kind_of_fault() -> None:
    def failing(provider: str, dtype: str = "float32") -> set[str]:
        return {edge for edge, found in outcomes(provider, dtype=dtype).items() if found != "checked"}

    assert failing("as-if-dense") == {"strided rows", "transposed"}
    assert failing("whole-vectors") == {"odd offset"}
    assert failing("zero-for-nan") == {"one NaN"}
    assert failing("no-eps", "bfloat16") == {"zeros"}
    assert failing("squares-in-float16", "float16") == {"large values"}
    assert failing("two-rows") == {"M=1", "M=0"}


def test_zeros_and_large_values_are_for_operators_that_are_finite_on_them() -> None:
    inverse, cube, order = (
        Operator(
            f"edges-{name}",
            axes=("N",),
            inputs={"x": Declared("N")},
            outputs={"y": Declared("N", dtype=dtype)},
            reference=reference,
        )
        for name, dtype, reference in [
            ("inverse", None, lambda x: 1 / x),
            ("cube", None, lambda x: x**3),
            ("order", "int64", lambda x: x.argsort(stable=True)),
        ]
    )
    inverse.provider("right")(lambda x: (1 / x.float()).to(x.dtype))
    cube.provider("right")(lambda x: (x.float() ** 3).to(x.dtype))
    order.provider("right")(lambda x: x.argsort(stable=True))
    names = {
        each.name: [name for name in outcomes("right", each, n=6, m=None, dtype="float16") if name in VALUES]
        for each in (inverse, cube, order)
    }
    assert names == {
        "edges-inverse": ["large offset", "large values", "one NaN"],
        "edges-cube": ["large offset", "zeros", "one NaN"],
        "edges-order": ["large offset", "large values", "one NaN"],
    }


def test_zeros_are_not_for_operators_that_choose_among_equal_values() -> None:
    """A router takes the rows of the largest scores. Of equal scores it may take any."""
    router = Operator(
        "edges-router",
        axes=("N", "K"),
        inputs={"score": Declared("N"), "x": Declared("N", "N")},
        outputs={"y": Declared("K", "N")},
        reference=lambda score, x, *, K: x[score.topk(K).indices],
    )

    @router.provider("sorted", factory=True)
    def by_sorting(case: Case) -> Callable[..., Tensor]:
        return lambda score, x: x[score.argsort(descending=True, stable=True)[: case.K]]

    found = checked_edges(router, "sorted", N=12, K=3)
    assert "zeros" not in found and set(found.values()) == {"checked"}


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
    names = [*LAYOUTS, *SIZES, "strided gradients", "expanded gradients"]
    assert outcomes("right", double, mode="backward") == dict.fromkeys(names, "checked")
    found = outcomes("as-if-dense", double, mode="backward")
    assert {edge for edge, each in found.items() if each != "checked"} == {*LAYOUTS[1:3], *names[-2:]}


def test_received_gradients_begin_at_odd_offsets_too() -> None:
    double = Operator(
        "edges-aligned",
        axes=("N",),
        inputs={"x": Declared("N")},
        outputs={"y": Declared("N")},
        reference=lambda x: 2 * x,
        gradients=("x",),
    )
    double.provider("right")(lambda x: 2 * x)

    @double.backward("right")
    def aligned(dy: Tensor, x: Tensor) -> Tensor:
        assert dy.data_ptr() % 16 == 0, "misaligned address"
        return 2 * dy

    found = outcomes("right", double, m=None, mode="backward")
    assert {edge: each for edge, each in found.items() if each != "checked"}.keys() == {"odd offset"}
    assert "misaligned address" in found["odd offset"]


def test_an_operator_with_edges_of_its_own_has_those_of_received_gradients() -> None:
    """The rows of x are dense on them, and a kernel that takes the strides of x for those of d_y is wrong."""
    triple = Operator(
        "edges-triple",
        axes=("M", "N"),
        inputs={"x": Declared("M", "N")},
        outputs={"y": Declared("M", "N"), "sum": Declared("M")},
        reference=lambda x: (3 * x, x.sum(-1)),
        gradients=("x",),
        edges={"gaps": lambda case, x: (F.pad(x, (0, 3))[:, :-3],)},
    )
    triple.provider("strides-of-x")(lambda x: (3 * x, x.sum(-1)))

    @triple.backward("strides-of-x")
    def as_x(dy: Tensor, d_sum: Tensor, x: Tensor) -> Tensor:
        return 3 * dy.as_strided(x.shape, x.stride()) + d_sum[:, None]

    assert edge_names(triple, "forward") == ["gaps", "odd offset"]
    assert edge_names(triple, "full") == ["gaps", "odd offset", "strided gradients", "expanded gradients"]
    found = outcomes("strides-of-x", triple, mode="backward")
    assert [edge for edge, each in found.items() if each != "checked"] == [
        "gaps",
        "strided gradients",
        "expanded gradients",
    ]


def test_a_provider_that_writes_over_a_gradient_gets_none_that_is_expanded() -> None:
    half = Operator(
        "edges-over-gradient",
        axes=("M", "N"),
        inputs={"x": Declared("M", "N")},
        outputs={"y": Declared("M", "N")},
        reference=lambda x: x / 2,
        gradients=("x",),
    )
    half.provider("in-place")(lambda x: x / 2)
    half.backward("in-place", mutates={"gradient of y": "x"})(lambda dy, x: dy.div_(2))
    found = outcomes("in-place", half, mode="backward")
    declined = "unsupported works in place on gradient of y, whose elements share memory here"
    assert found.pop("expanded gradients") == declined and set(found.values()) == {"checked"}


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
    assert set(outcomes("right", even)) == {*LAYOUTS, "large offset", "zeros", "one NaN", "M=1", "M=0"}


def test_an_operator_with_edges_of_its_own_has_one_other() -> None:
    assert edge_names(operator("softmax"), "forward") == [*operator("softmax").edges, "odd offset"]


def test_an_edge_of_the_operator_takes_the_place_of_a_common_one_with_its_name() -> None:
    own = Operator(
        "edges-own-offset",
        axes=("N",),
        inputs={"x": Declared("N")},
        outputs={"y": Declared("N")},
        reference=lambda x: x + 1,
        edges={"odd offset": lambda case, x: (x + 3,)},
    )
    own.provider("aligned")(lambda x: x + 1 if x.data_ptr() % 16 == 0 else x)
    assert edge_names(own, "forward") == ["odd offset"]
    assert outcomes("aligned", own, m=None) == {"random": "checked", "odd offset": "checked"}


def test_a_function_that_takes_other_arguments_is_named_with_its_place() -> None:
    found = outcomes("no-arguments")["random"]
    line = no_arguments.__code__.co_firstlineno
    place = f"test_common_edges.py:{line}"
    assert (
        found == f"error no_arguments: too many positional arguments at {place}; kbench calls it as no_arguments(x, w)"
    )


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
