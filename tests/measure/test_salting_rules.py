"""Which elements salts may change, and that honest providers of unusual operators pass."""

from __future__ import annotations

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
from kbench.measure.correctness.inputs import Inputs, SharedInputs
from kbench.measure.definition.definition import Definition
from kbench.measure.machine.device import Device
from kbench.measure.salting.salts import SALTED_ROWS, Salter
from kbench.results.case import Case

pytestmark = pytest.mark.slow  # each test measures several cases

MATRIX = Declared("M", "N")


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
    operator = Operator(
        f"rules-{name}", axes=tuple(axes), inputs=inputs, outputs={"y": output}, reference=reference, **fields
    )
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
total = made("total", "N", {"x": Declared("N")}, Declared(), torch.sum)
product = made("product", "MN", {"a": MATRIX, "s": Declared()}, MATRIX, torch.mul)
across = made("across", "MN", {"x": Declared("N", "M")}, Declared("N", "M"), lambda x: x.softmax(0), rows="M")
ones = made(
    "ones", "N", {"x": Declared("N", fill=lambda case, draw: torch.ones(int(case.N)))}, Declared("N"), torch.exp
)
eighths = made(
    "eighths", "MN", {"x": Declared("M", "N", dtype="float8_e4m3fn")}, Declared("M", "N", dtype="float8_e5m2"),
    lambda x: x if x.dtype == torch.float64 else x.to(torch.float8_e5m2), rows="M",
)  # fmt: skip

SIZES = {"M": 12, "N": 40}


def sizes(operator: Operator) -> dict[str, int]:
    return {axis: SIZES[axis] for axis in operator.axes}


class Salted:
    """The inputs of a case, and the salter that changes them."""

    def __init__(self, case: Case, operator: Operator) -> None:
        definition = Definition(operator, case)
        drawn = Inputs(definition, Device(), 0)
        self.shared = SharedInputs(definition.input_names, drawn.draw("timed"))
        self.other = drawn.draw("second")
        self.salter = Salter(definition, self.shared.pristine, self.other, Random(1))

    def changes(self, count: int) -> list[list[Tensor]]:
        """For each of `count` salts, which elements of each input it writes."""
        found = []
        for _ in range(count):
            masks = [torch.zeros(x.shape, dtype=torch.bool) for x in self.shared.pristine]
            for box in self.salter.draw().boxes:
                box.of(masks[box.position]).fill_(True)
            found.append(masks)
        return found


def test_the_same_rows_change_in_all_inputs_or_nearly_all_rows_and_no_two_salts_are_equal() -> None:
    salted = Salted(labelled.case(M=1000, N=300), labelled)
    wide = 0
    for x, labels in (found := salted.changes(200)):
        rows = labels.nonzero().flatten()
        assert int(labels.sum()) == SALTED_ROWS
        assert rows[-1] - rows[0] > 450 and len(set(rows.diff().tolist())) == 1
        if torch.equal(x.any(1), labels):
            continue
        wide += 1
        columns = x.any(0).nonzero().flatten()
        assert int(x.any(1).sum()) > 930 and columns[-1] - columns[0] > 150, (
            "a call that leaves a block undone leaves some undone"
        )
    assert 110 < wide < 185
    assert len({tuple(x.flatten().nonzero().flatten().tolist()) for x, _ in found}) == 200


def test_a_salt_of_millions_of_rows_changes_at_most_about_a_million_of_them() -> None:
    softmax = kbench.operator("softmax")
    found = Salted(softmax.case(M=3 * 2**20, N=2, dtype="bfloat16"), softmax).changes(6)
    assert max(int(x.sum()) for (x,) in found) in range(900_000, 2**20 + 1)


def test_a_salt_of_a_large_matrix_changes_few_elements_of_each_row() -> None:
    for rows, columns, most in ((2**17, 64, 1), (2**13, 256, 16)):
        softmax = kbench.operator("softmax")
        found = Salted(softmax.case(M=rows, N=columns), softmax).changes(6)
        counts = [x.sum(1) for (x,) in found if int(x.any(1).sum()) > rows * 0.9]
        assert all(int(count.max()) <= most * 1.07 for count in counts) and counts


@pytest.mark.parametrize(
    ("operator", "changed"),
    [
        (segments, {"x"}),
        (rescaled, {"x", "s"}),
        (inverse, {"p"}),
        (total, {"x"}),
        (product, {"a", "s"}),
        (across, {"x"}),
    ],
)
def test_inputs_of_a_structure_that_kbench_does_not_know_are_left_alone(operator: Operator, changed: set[str]) -> None:
    found = Salted(operator.case(**sizes(operator)), operator).changes(20)
    names = list(operator.inputs)
    assert {names[at] for masks in found for at, mask in enumerate(masks) if mask.any()} == changed
    if operator is inverse:  # nothing else can change: all of it or none
        assert {int(mask.sum()) for (mask,) in found} == {0, 12}
    if operator is rescaled:
        assert all(torch.equal(s[:, 0], s[:, 1]) for _, s in found)


def test_in_mode_backward_only_the_gradients_of_outputs_change() -> None:
    for x, labels, received in Salted(labelled.case(M=12, N=40, mode="backward"), labelled).changes(20):
        assert received.any() and not x.any() and not labels.any()


def test_inputs_move_and_keep_their_alignment_and_values() -> None:
    shared = Salted(labelled.case(M=7, N=3), labelled).shared
    for sets in (1, 1, 3, 1):
        before = [x.data_ptr() for x in shared.tensors]
        shared.place(sets)
        assert len(shared.sets) == sets and shared.sets[0] is shared.tensors
        for tensors in shared.sets:
            assert all(torch.equal(x, y) for x, y in zip(tensors, shared.pristine, strict=True))
        after = [x.data_ptr() for x in shared.tensors]
        if sets == 1:
            assert not set(before) & set(after)
        assert all(address % 64 == 0 for address in after)


def test_what_is_written_into_all_sets_is_no_change_that_torch_counts() -> None:
    shared = Salted(labelled.case(M=7, N=3), labelled).shared
    shared.place(2)
    versions = [x._version for tensors in shared.sets for x in tensors]
    shared.stacked[0].fill_(5)
    assert all(bool((tensors[0] == 5).all()) for tensors in shared.sets)
    assert [x._version for tensors in shared.sets for x in tensors] == versions


@pytest.mark.parametrize(
    "operator", [segments, rescaled, inverse, total, product, across, ones, eighths], ids=lambda each: str(each.name)
)
def test_honest_providers_pass(operator: Operator) -> None:
    assert said(measured(operator, **sizes(operator))["honest"]) == "ok"


@pytest.mark.parametrize("mode", ["forward", "backward", "full"])
def test_honest_providers_pass_in_every_mode_and_with_one_element(mode: str) -> None:
    for size in (1, 5):
        assert said(measured(labelled, rounds=2, M=size, N=size, mode=mode)["honest"]) == "ok"
