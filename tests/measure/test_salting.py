"""Inputs change before every timed call, and some outputs of timed calls are judged.

The cheats are right whenever they are checked, and do less while they are timed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import torch
from in_process import measured, said
from torch import Tensor

import kbench
from kbench.contract.operator import Operator
from kbench.contract.tensor import Draw, integers
from kbench.contract.tensor import Tensor as Declared
from kbench.measure.correctness.call import Call as Prepared
from kbench.measure.correctness.definition import Definition
from kbench.measure.correctness.expected import Expected
from kbench.measure.correctness.inputs import Inputs, SharedInputs
from kbench.measure.machine.device import Device
from kbench.measure.salting import ROWS_KEPT, SALTED_ROWS, Salter, SpotCheck
from kbench.results.case import Case

MATRIX = Declared("M", "N")

CHECKS = 5
"""More than the calls of the checks before timing."""

TIMED = r"wrong right when checked, wrong while it was timed \(call \d+ of \d+\): "

Call = Callable[[Tensor], Tensor]


def right(x: Tensor) -> Tensor:
    return x.softmax(-1)


softmax = Operator("salted-softmax", ["M", "N"], inputs={"x": MATRIX}, outputs={"y": MATRIX}, rows="M", reference=right)
softmax.provider("honest")(right)


def one_of_all_sets(case: Case) -> Call:
    """Computes one call of a graph, and copies its result in the others."""
    first: list[Tensor] = []

    def call(x: Tensor) -> Tensor:
        if not torch.cuda.is_available() or not torch.cuda.is_current_stream_capturing():
            return right(x)
        first[:] = first or [right(x)]
        return first[0].clone()

    return call


softmax.provider("one-of-all-sets", factory=True)(one_of_all_sets)


@pytest.mark.gpu
def test_a_graph_that_computes_one_of_its_calls_is_wrong_on_a_device() -> None:
    rows = measured(softmax, M=1024, N=512, timer="graph", cache="cold", rounds=2, rep_ms=30)
    assert said(rows["honest"]) == "ok"
    assert re.match(TIMED, said(rows["one-of-all-sets"])), said(rows["one-of-all-sets"])


def test_gradients_without_rows_are_judged() -> None:
    stored: list[Tensor] = []
    scaled = Operator(
        "salted-scaled", ["N", "M"], {"x": Declared("N", "M"), "w": Declared("N")}, {"y": Declared("N", "M")},
        lambda x, w: x * w[:, None], rows="M", gradients=("x", "w"),
    )  # fmt: skip
    scaled.provider("honest")(lambda x, w: x * w[:, None])
    scaled.provider("kernel")(lambda x, w: x * w[:, None])

    @scaled.backward("kernel")
    def kernel(dy: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        """The gradient of w is right for some calls, and stored after them."""
        stored.append((dy * x).sum(1) if len(stored) < CHECKS else stored[-1])
        return dy * w[:, None], stored[-1].clone()

    rows = measured(scaled, ["honest", "kernel"], rep_ms=5, N=30, M=20, mode="backward")
    assert said(rows["honest"]) == "ok"
    assert re.match(
        TIMED + "gradient of w: .* of 30 elements wrong|" + TIMED + "gradient of w: every", said(rows["kernel"])
    )


def test_all_timed_calls_have_the_same_chance_to_be_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    definition = Definition(softmax, softmax.case("float32", M=4, N=2))
    inputs = Inputs(definition, Device(), 0)
    shared, other = SharedInputs(definition.input_names, inputs.draw("timed")), inputs.draw("second")
    expected = Expected(definition, shared.pristine)
    numbers: Counter[int] = Counter()
    for seed in range(400):
        spot_check = SpotCheck(expected, shared, other, Random(seed), replayed=False)
        monkeypatch.setattr(spot_check, "_wrong", lambda kept: numbers.update([kept.number]))
        [run] = spot_check.use([Prepared(lambda: right(shared.tensors[0]))])
        for _ in range(10):
            spot_check.before()
            run()
        spot_check.after()
        assert spot_check.fault() is None
    assert sum(numbers.values()) == 400 * ROWS_KEPT
    assert all(110 < numbers[number] < 210 for number in range(1, 11)), numbers


# --- what salts change


def offsets(case: Case, draw: Draw) -> Tensor:
    """Sorted, from 0 to N."""
    inner = draw.integers(0, int(case.N) + 1, int(case.M) - 1).sort().values
    return torch.cat([inner.new_zeros(1), inner, inner.new_full((1,), int(case.N))])


def scales(case: Case, draw: Draw) -> Tensor:
    """One value per row, the same in both columns."""
    return draw.normal(int(case.M), 1).expand(-1, 2)


def sums(x: Tensor, ends: Tensor) -> Tensor:
    total = torch.cat([x.new_zeros(1), x.double().cumsum(0).to(x.dtype)])
    return total[ends[1:]] - total[ends[:-1]]


def made(
    name: str, axes: str, inputs: dict[str, Declared], output: Declared, reference: Callable[..., Tensor], **fields: Any
) -> Operator:
    operator = Operator(f"rules-{name}", tuple(axes), inputs, {"y": output}, reference, **fields)
    operator.provider("honest")(reference)
    return operator


LABELS = Declared("M", dtype="int64", fill=integers("N"))
PERMUTATION = Declared("M", dtype="int64", fill=lambda case, draw: torch.randperm(int(case.M)))

labelled = made(
    "labelled", "MN", {"x": MATRIX, "labels": LABELS}, Declared("M"), lambda x, labels: x.gather(1, labels[:, None])[:, 0],
    rows="M", gradients=("x",),
)  # fmt: skip
ENDS = Declared("M+1", dtype="int64", fill=offsets)
segments = made("segments", "MN", {"x": Declared("N"), "ends": ENDS}, Declared("M"), sums)
rescaled = made(
    "rescaled", "MN", {"x": MATRIX, "s": Declared("M", "2", fill=scales)}, MATRIX, lambda x, s: x * s[:, :1], rows="M"
)
inverse = made("inverse", "M", {"p": PERMUTATION}, Declared("M", dtype="int64"), torch.argsort)
eighths = made(
    "eighths", "MN", {"x": Declared("M", "N", dtype="float8_e4m3fn")}, Declared("M", "N", dtype="float8_e5m2"),
    lambda x: x if x.dtype == torch.float64 else x.to(torch.float8_e5m2), rows="M",
)  # fmt: skip

SIZES = {"M": 12, "N": 40}


def changes(case: Case, operator: Operator, count: int) -> list[list[Tensor]]:
    """For each of `count` salts, which elements of each input it writes."""
    definition = Definition(operator, case)
    shapes = [tuple(x.shape) for x in Inputs(definition, Device(), 0).draw("timed")]
    salter, written = Salter(definition, shapes, Random(1)), []
    for _ in range(count):
        masks = [torch.zeros(shape, dtype=torch.bool) for shape in shapes]
        for at, some, others in salter.draw().changes:
            assert masks[at][some].shape == masks[at][others].shape
            masks[at][some].fill_(True)
        written.append(masks)
    return written


def test_the_same_rows_change_in_all_inputs_and_a_few_elements_of_nearly_all_rows() -> None:
    for x, labels in changes(labelled.case(M=1000, N=300), labelled, 100):
        rows = labels.nonzero().flatten()
        assert len(rows) == SALTED_ROWS and x[rows].all()
        assert rows[-1] - rows[0] > 450 and len(set(rows.diff().tolist())) == 1
        others = x[~labels]
        columns = others.any(0).nonzero().flatten()
        assert int(x.any(1).sum()) > 930 and columns[-1] - columns[0] >= 150
        assert int(others.sum(1).max()) <= 300 // 64


@pytest.mark.parametrize("rows", [1, 2, 8])
def test_a_salt_makes_no_ties_and_each_is_another(rows: int) -> None:
    salter, salted = Salter(Definition(softmax, softmax.case(M=rows, N=40)), [(rows, 40)], Random(1)), set()
    for _ in range(100):
        x, other = torch.arange(2 * rows * 40).view(2, rows, 40).clone()
        for _, some, others in salter.draw().changes:
            x[some] = other[others]
        assert x.unique().numel() == x.numel()
        salted.add(tuple(x.flatten().tolist()))
    assert len(salted) > 60


def test_a_salt_of_a_large_matrix_changes_few_elements() -> None:
    operator = kbench.operator("softmax")
    for rows, columns in ((2**17, 64), (3 * 2**20, 2), (1, 2**21)):
        for (x,) in changes(operator.case(M=rows, N=columns, dtype="bfloat16"), operator, 3):
            assert 0 < int(x.sum()) <= 2**20 + 2**17 or rows == 1
            assert int(x.any(1).sum()) > min(rows * 0.9, 900_000)


@pytest.mark.parametrize(
    ("operator", "changed"),
    [
        (segments, {"x", "ends"}),
        (rescaled, {"x", "s"}),
        (inverse, {"p"}),
    ],
    ids=lambda value: str(getattr(value, "name", "")),
)
def test_inputs_of_a_structure_that_kbench_does_not_know_change_as_a_whole(
    operator: Operator, changed: set[str]
) -> None:
    written = changes(operator.case(**{axis: SIZES[axis] for axis in operator.axes}), operator, 20)
    names = list(operator.inputs)
    assert {names[at] for masks in written for at, mask in enumerate(masks) if mask.any()} == changed
    if operator is not rescaled:  # all of it or none
        assert {int(masks[-1].sum()) for masks in written} == {0, written[0][-1].numel()}
    if operator is rescaled:
        assert all(torch.equal(s[:, 0], s[:, 1]) for _, s in written)


def test_in_mode_backward_only_the_gradients_of_outputs_change() -> None:
    for x, labels, received in changes(labelled.case(M=12, N=40, mode="backward"), labelled, 20):
        assert received.any() and not x.any() and not labels.any()


def test_inputs_move_and_keep_their_alignment_and_values_and_torch_counts_no_change() -> None:
    definition = Definition(labelled, labelled.case(M=7, N=3))
    shared = SharedInputs(definition.input_names, Inputs(definition, Device(), 0).draw("timed"))
    for sets in (1, 1, 3, 1):
        before = [x.data_ptr() for x in shared.tensors]
        shared.place(sets)
        assert len(shared.sets) == sets and shared.sets[0] is shared.tensors
        for tensors in shared.sets:
            assert all(torch.equal(x, y) for x, y in zip(tensors, shared.pristine, strict=True))
        after = [x.data_ptr() for x in shared.tensors]
        assert sets > 1 or not set(before) & set(after)
        assert all(address % 64 == 0 for address in after)
        versions = [x._version for tensors in shared.sets for x in tensors]
        shared.stacked[0].fill_(5)
        assert all(bool((tensors[0] == 5).all()) for tensors in shared.sets)
        assert [x._version for tensors in shared.sets for x in tensors] == versions


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operator", "size", "mode"),
    [
        *((of, 0, "forward") for of in (segments, rescaled, inverse, eighths)),
        (labelled, 1, "full"),
        (labelled, 5, "full"),
    ],
    ids=lambda value: str(getattr(value, "name", value)),
)
def test_honest_providers_pass_also_with_one_element(operator: Operator, size: int, mode: str) -> None:
    sizes = {axis: size or SIZES[axis] for axis in operator.axes}
    more = {"mode": mode} if operator.gradients else {}
    assert said(measured(operator, rounds=2, **sizes, **more)["honest"]) == "ok"
