"""The common edge inputs follow from the tensors that an operator declares, in every mode."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from in_process import checked_edges
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor as Declared
from kbench.contract.tensor import integers
from kbench.measure.correctness.common_edges import edge_names

MODES = ["forward", "backward", "full"]
MATRIX = Declared("M", "N")


def _norm(x: Tensor, weight: Tensor, *, eps: float) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


norm = Operator(
    "edges-of-norm",
    axes=("N", "M"),
    inputs={"x": MATRIX, "weight": Declared("N")},
    outputs={"y": MATRIX},
    scalars={"eps": 1e-6},
    reference=_norm,
    rows="M",
    gradients=("x", "weight"),
)
norm.provider("torch")(lambda x, weight, *, eps: F.rms_norm(x, x.shape[1:], weight, eps))
norm.provider("needs-a-row")(lambda x, weight, *, eps: F.rms_norm(x, x.shape[1:], weight, eps))


@norm.backward("needs-a-row")
def needs_a_row(dy: Tensor, x: Tensor, weight: Tensor, *, eps: float) -> tuple[Tensor, Tensor]:
    if not len(x):
        raise ValueError("no rows")
    x, dense, weight = x.double(), torch.as_strided(x, x.shape, (x.shape[1], 1)).double(), weight.double()
    r = (x.square().mean(-1, keepdim=True) + eps).rsqrt()
    g = dy.double() * weight
    dx = r * g - x * r**3 * (g * x).mean(-1, keepdim=True)
    return dx.to(dy.dtype), (dy.double() * dense * r).sum(0).to(dy.dtype)


loss = Operator(
    "edges-of-loss",
    axes=("M", "V"),
    inputs={"logits": Declared("M", "V"), "labels": Declared("M", dtype="int64", fill=integers("V"))},
    outputs={"loss": Declared("M", dtype="float32")},
    reference=lambda logits, labels: logits.logsumexp(-1) - logits.gather(1, labels[:, None])[:, 0],
    rows="M",
    gradients=("logits",),
)


@loss.provider("torch")
def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.float(), labels, reduction="none")


@loss.provider("ignores-label-0")
def ignores_label_0(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.float(), labels, reduction="none", ignore_index=0)


@loss.provider("cuts-the-last-column")
def cuts_the_last_column(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.float(), labels.clamp_max(max(logits.shape[1] - 2, 0)), reduction="none")


LAYOUTS, INTEGERS = ["random", "strided rows", "transposed", "odd offset"], ["smallest integers", "largest integers"]
GRADIENTS = ["strided gradients", "expanded gradients"]


def names(mode: str, values: list[str], sizes: list[str], *, dtype: str = "float32") -> list[str]:
    """The edges of a mode: those with special values are for the forward pass, and large ones for float16."""
    forward = [name for name in values if name != "large values" or dtype == "float16"]
    return [*LAYOUTS, *(forward if mode == "forward" else []), *sizes, *(GRADIENTS if mode != "forward" else [])]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("mode", MODES)
def test_torch_is_right_on_all_of_them(mode: str, dtype: str) -> None:
    values = ["large offset", "zeros", "large values", "one NaN"]
    of_norm = names(mode, values, ["N=1", "M=1", "M=0"], dtype=dtype)
    assert checked_edges(norm, "torch", dtype=dtype, mode=mode, M=8, N=32) == dict.fromkeys(of_norm, "checked")
    of_loss = names(mode, values, [*INTEGERS, "M=1", "V=1", "M=0"], dtype=dtype)
    assert checked_edges(loss, "torch", dtype=dtype, mode=mode, M=8, V=32) == dict.fromkeys(of_loss, "checked")


def _failing(operator: Operator, provider: str, mode: str, **axes: int) -> set[str]:
    return {edge for edge, found in checked_edges(operator, provider, mode=mode, **axes).items() if found != "checked"}


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_each_finds_its_kind_of_fault(mode: str) -> None:
    assert "smallest integers" in _failing(loss, "ignores-label-0", mode, M=2, V=5000)
    assert "random" not in _failing(loss, "ignores-label-0", mode, M=2, V=5000)
    assert "largest integers" in _failing(loss, "cuts-the-last-column", mode, M=2, V=5000)
    found = _failing(norm, "needs-a-row", mode, M=8, N=32)
    assert found == (set() if mode == "forward" else {"strided rows", "transposed", "M=0"})


@pytest.mark.parametrize(
    ("declared", "edges"),
    [
        (Declared("N"), ["large offset", "zeros", "one NaN", "N=1", "N=0"]),
        (Declared("N", dtype="int32", fill=integers(9)), ["smallest integers", "largest integers", "N=1", "N=0"]),
        (Declared("N", dtype="bool"), ["smallest integers", "largest integers", "N=1", "N=0"]),
        (Declared("N", "N", dtype="int8", fill=integers(5, low=-5)), [
            "strided rows", "transposed", "smallest integers", "largest integers", "N=1", "N=0",
        ]),
        (Declared("N", dtype="float8_e4m3fn"), ["large offset", "zeros", "one NaN", "N=1", "N=0"]),
        (Declared(2, "N", dtype="float8_e5m2"), [
            "strided rows", "transposed", "large offset", "zeros", "one NaN", "N=1", "N=0",
        ]),
        (Declared("N/2"), ["large offset", "zeros", "one NaN", "N=0"]),
    ],
)  # fmt: skip
def test_they_follow_from_the_tensors(declared: Declared, edges: list[str]) -> None:
    kind = "-".join([*declared.sizes, declared.dtype or ""]).replace("/", "over")
    half = Operator(
        f"edges-by-{kind}",
        axes=("N",),
        inputs={"x": declared},
        outputs={"y": Declared(*declared.sizes, dtype="float32")},
        reference=lambda x: x.double() / 2,
    )
    half.provider("right")(lambda x: x.float() / 2)
    assert set(edges) <= set(edge_names(half, "forward"))
    assert checked_edges(half, "right", N=6) == dict.fromkeys(["random", "odd offset", *edges], "checked")


def test_the_ends_of_the_range_are_what_is_declared() -> None:
    seen: list[tuple[set[int], set[bool]]] = []
    ends = Operator(
        "edges-ends",
        axes=("N", "K"),
        inputs={
            "i": Declared("N", dtype="int16", fill=integers("2*K", low=-3)),
            "mask": Declared("N", dtype="bool"),
            "x": Declared("N"),
        },
        outputs={"y": Declared("N")},
        reference=lambda i, mask, x: x * i * mask,
    )

    @ends.provider("right")
    def right(i: Tensor, mask: Tensor, x: Tensor) -> Tensor:
        seen.append((set(i.tolist()), set(mask.tolist())))
        return x * i * mask

    found = checked_edges(ends, "right", N=50, K=4)
    assert set(found.values()) == {"checked"}
    assert ({-3}, {False}) in seen and ({7}, {True}) in seen


@pytest.mark.slow
def test_without_rows_the_first_axis_is_empty_once() -> None:
    product = Operator(
        "edges-product",
        axes=("M", "N", "K"),
        inputs={"a": Declared("M", "K"), "b": Declared("K", "N")},
        outputs={"c": MATRIX},
        reference=lambda a, b: a @ b,
        gradients=("a", "b"),
    )
    product.provider("torch")(torch.matmul)
    for mode in MODES:
        edges = names(mode, ["large offset", "zeros", "one NaN"], ["M=1", "N=1", "K=1", "M=0"])
        assert checked_edges(product, "torch", mode=mode, M=4, N=8, K=4) == dict.fromkeys(edges, "checked")


def test_a_value_without_a_dimension() -> None:
    scaled = Operator(
        "edges-scaled",
        axes=("N",),
        inputs={"factor": Declared(), "x": Declared("N")},
        outputs={"y": Declared("N"), "sum": Declared()},
        reference=lambda factor, x: (factor * x, (factor * x).sum()),
        gradients=("factor", "x"),
    )
    scaled.provider("torch")(lambda factor, x: (factor * x, (factor * x).sum()))
    for mode in MODES:
        found = checked_edges(scaled, "torch", mode=mode, N=40)
        edges = set(names(mode, ["large offset", "zeros", "one NaN"], ["N=1", "N=0"]))
        assert found == dict.fromkeys(edges - {"strided rows", "transposed"}, "checked")


def test_in_place_and_buffers_on_edges() -> None:
    add = Operator(
        "edges-add",
        axes=("M", "N"),
        inputs={"x": MATRIX, "residual": MATRIX},
        outputs={"y": MATRIX, "h": MATRIX},
        reference=lambda x, residual: ((x + residual) * 2, x + residual),
        rows="M",
    )

    @add.provider("in-place", mutates={"residual": "h"}, out=("y",))
    def in_place(x: Tensor, residual: Tensor, *, y: Tensor) -> None:
        torch.mul(residual.add_(x), 2, out=y)

    values = ["large offset", "zeros", "one NaN"]
    edges = names("forward", values, ["M=1", "N=1", "M=0"])
    assert checked_edges(add, "in-place", M=4, N=8) == dict.fromkeys(edges, "checked")
