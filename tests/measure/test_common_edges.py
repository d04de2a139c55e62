"""The common edge inputs follow from the tensors that an operator declares, in every mode, and each finds its kind of fault."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from in_process import checked_edges
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor as Declared
from kbench.contract.tensor import integers
from kbench.measure.correctness.common_edges import edge_names

MATRIX = Declared("M", "N")
LAYOUTS, INTEGERS = ["random", "strided rows", "transposed", "odd offset"], ["smallest integers", "largest integers"]
VALUES = ["large offset", "zeros", "tiny", "large values", "one NaN"]
GRADIENTS = ["strided gradients", "expanded gradients"]


def made(name: str, axes: str, inputs: object, output: Declared, reference: object, **fields: object) -> Operator:
    return Operator(f"edges-{name}", tuple(axes), inputs, {"y": output}, reference, **fields)  # type: ignore[arg-type]


def failing(of: Operator, provider: str, **axes: object) -> set[str]:
    rows = checked_edges(of, provider, **axes)  # type: ignore[arg-type]
    return {edge for edge, outcome in rows.items() if outcome != "checked"}


norm = made(
    "norm", "NM", {"x": MATRIX, "w": Declared("N")}, MATRIX,
    lambda x, w: x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * w, rows="M", gradients=("x", "w"),
)  # fmt: skip


@norm.provider("torch")
def right(x: Tensor, w: Tensor) -> Tensor:
    return F.rms_norm(x, x.shape[1:], w, eps=1e-6)


loss = made(
    "loss", "MV", {"logits": Declared("M", "V"), "labels": Declared("M", dtype="int64", fill=integers("V"))},
    Declared("M", dtype="float32"),
    lambda logits, labels: logits.logsumexp(-1) - logits.gather(1, labels[:, None])[:, 0], rows="M", gradients=("logits",),
)  # fmt: skip


def cross_entropy(logits: Tensor, labels: Tensor, **more: int) -> Tensor:
    return F.cross_entropy(logits.float(), labels, reduction="none", **more)


loss.provider("torch")(lambda logits, labels: cross_entropy(logits, labels))
loss.provider("ignores-label-0")(lambda logits, labels: cross_entropy(logits, labels, ignore_index=0))
loss.provider("cuts-the-last-column")(
    lambda logits, labels: cross_entropy(logits, labels.clamp_max(max(logits.shape[1] - 2, 0)))
)


@pytest.mark.parametrize(("mode", "dtype"), [("forward", "bfloat16"), ("backward", "bfloat16"), ("forward", "float16")])
def test_torch_is_right_on_all_of_them(mode: str, dtype: str) -> None:
    values = [name for name in VALUES if name != "large values" or dtype == "float16"] if mode == "forward" else []
    gradients = [] if mode == "forward" else GRADIENTS
    of_norm = [*LAYOUTS, *values, "N=1", "M=1", "M=0", "N=odd", "M=odd", *gradients]
    assert checked_edges(norm, "torch", dtype=dtype, mode=mode, M=8, N=32) == dict.fromkeys(of_norm, "checked")
    of_loss = [*LAYOUTS, *values, *INTEGERS, "M=1", "V=1", "M=0", "M=odd", "V=odd", *gradients]
    assert checked_edges(loss, "torch", dtype=dtype, mode=mode, M=8, V=32) == dict.fromkeys(of_loss, "checked")


def test_the_ends_of_a_range_find_a_kernel_that_forgets_them() -> None:
    assert "smallest integers" in (found := failing(loss, "ignores-label-0", mode="backward", M=2, V=5000))
    assert "random" not in found
    assert "largest integers" in failing(loss, "cuts-the-last-column", M=2, V=5000)


def test_zeros_and_large_values_are_for_operators_that_are_finite_on_them() -> None:
    references: dict[str, Callable[[Tensor], Tensor]] = {
        "inverse": lambda x: 1 / x,
        "cube": lambda x: x**3,
        "order": lambda x: x.argsort(stable=True),
    }
    names = {}
    for name, reference in references.items():
        output = Declared("N", dtype="int64" if name == "order" else None)
        each = made(name, "N", {"x": Declared("N")}, output, reference)
        dtype = torch.int64 if name == "order" else torch.float16
        each.provider("right")(lambda x, reference=reference, dtype=dtype: reference(x.float()).to(dtype))
        names[name] = {*VALUES} - checked_edges(each, "right", dtype="float16", N=6).keys()
    assert names == {"inverse": {"zeros"}, "cube": {"large values"}, "order": {"zeros", "tiny"}}


def test_received_gradients_have_gaps_and_odd_offsets_and_are_not_expanded_for_a_kernel_in_place() -> None:
    """An operator with edges of its own has those of received gradients, too."""
    half = made(
        "half", "MN", {"x": MATRIX}, MATRIX, lambda x: x / 2, gradients=("x",),
        edges={"gaps": lambda case, x: (F.pad(x, (0, 3))[:, :-3],)},
    )  # fmt: skip
    for name in ("torch", "strides-of-x", "aligned", "in-place"):
        half.provider(name)(lambda x: x / 2)
    half.backward("strides-of-x")(lambda dy, x: dy.as_strided(x.shape, x.stride()) / 2)
    half.backward("in-place", mutates={"gradient of y": "x"})(lambda dy, x: dy.div_(2))

    @half.backward("aligned")
    def aligned(dy: Tensor, x: Tensor) -> Tensor:
        assert dy.data_ptr() % 16 == 0, "misaligned address"
        return dy / 2

    assert edge_names(half, "forward") == ["gaps", "odd offset", "huge stride"]
    assert edge_names(half, "full") == ["gaps", "odd offset", "huge stride", *GRADIENTS]
    size = {"mode": "backward", "M": 8, "N": 32}
    assert failing(half, "torch", **size) == set()
    assert failing(half, "strides-of-x", **size) == {"gaps", *GRADIENTS}
    assert "odd offset" in failing(half, "aligned", **size)
    declined = "unsupported works in place on gradient of y, whose elements share memory here"
    rows = checked_edges(half, "in-place", mode="backward", M=8, N=32)
    assert rows.pop("expanded gradients") == declined and set(rows.values()) == {"checked"}


@pytest.mark.parametrize(
    ("declared", "edges"),
    [
        (Declared("N", dtype="int32", fill=integers(9)), [*INTEGERS, "N=1", "N=0", "N=odd"]),
        (Declared("N", "N", dtype="int8", fill=integers(5, low=-5)), [*LAYOUTS[1:], *INTEGERS, "N=1", "N=0", "N=odd"]),
        (Declared("N/2"), ["large offset", "zeros", "tiny", "one NaN", "N=0"]),
    ],
)  # fmt: skip
def test_they_follow_from_the_tensors(declared: Declared, edges: list[str]) -> None:
    kind = "-".join([*declared.sizes, declared.dtype or ""]).replace("/", "over")
    output = Declared(*declared.sizes, dtype="float32")
    half = made(f"by-{kind}", "N", {"x": declared}, output, lambda x: x.double() / 2)
    half.provider("right")(lambda x: x.float() / 2)
    checked = checked_edges(half, "right", N=6)
    checked.pop("huge stride", None)  # on a device with enough memory
    assert checked == dict.fromkeys(["random", "odd offset", *edges], "checked")
