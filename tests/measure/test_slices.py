"""Large outputs are judged in slices along `rows`: the verdicts are those of outputs in one piece, whatever the sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from in_process import matrices
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor as Declared
from kbench.measure.correctness.check import compared
from kbench.measure.correctness.definition import Definition, OperatorFault
from kbench.measure.correctness.elements import Accuracy
from kbench.measure.correctness.expected import Expected
from kbench.measure.correctness.inputs import Inputs
from kbench.measure.machine.device import Device

WHOLE = 2**25


@dataclass
class Sliced:
    """An operator, its right function, and the axes that are drawn at random."""

    operator: Operator
    right: Callable[..., Any]

    def drawn(self, mode: str, **axes: int) -> tuple[Definition, tuple[Tensor, ...], list[Tensor]]:
        """The definition, the inputs, and the right outputs of a call."""
        definition = Definition(self.operator, self.operator.case(mode=mode, **axes))
        inputs = Inputs(definition, Device(), 0).draw("random")
        count = len(self.operator.inputs)
        given = [
            x.clone().requires_grad_(name in self.operator.gradients and mode != "forward")
            for name, x in zip(self.operator.inputs, inputs, strict=False)
        ]
        found = self.right(*given)
        outputs = [found] if isinstance(found, Tensor) else list(found)
        if mode == "forward":
            return definition, inputs, outputs
        leaves = [x for x in given if x.requires_grad]
        gradients = torch.autograd.grad(outputs, leaves, inputs[count:])
        return definition, inputs, [*([x.detach() for x in outputs] if mode == "full" else []), *gradients]


M_N, N_N = Declared("M", "N"), Declared("N", "N")


def _made(name: str, axes: str, inputs: Any, outputs: Any, reference: Any, right: Any, *gradients: str) -> Sliced:
    made = Operator(
        f"slices-{name}", axes.split(), inputs, outputs, reference, gradients=gradients, rows="M", tolerance=64
    )
    made.provider("right")(right)
    return Sliced(made, right)


def _two(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    h = x * w
    return h.logsumexp(0), h


OPERATORS = {
    "linear": _made(
        "linear", "M N", {"x": M_N, "w": N_N}, {"y": M_N}, lambda x, w: x @ w.t(), F.linear, "x", "w"
    ),
    "columns": _made(  # rows are the last dimension of the inputs and of two outputs
        "columns", "N M", {"x": Declared("N", "M"), "w": Declared("N", 1)}, {"y": Declared("M"), "h": Declared("N", "M")},
        _two, _two, "x", "w",
    ),
    "outer": _made(  # the output is much larger than the inputs
        "outer", "M N", {"a": Declared("M"), "b": Declared("N")}, {"y": M_N}, lambda a, b: a[:, None] * b,
        lambda a, b: a[:, None] * b, "a", "b",
    ),
    }  # fmt: skip


def verdicts(definition: Definition, inputs: Any, outputs: list[Tensor], monkeypatch: Any) -> list[Accuracy]:
    """What kbench says of the outputs in one piece, and in slices of several sizes."""
    found = []
    for elements in (WHOLE, 8, 1):
        monkeypatch.setattr("kbench.measure.correctness.expected.CHUNK_ELEMENTS", elements)
        expected = Expected(definition, inputs, keep_bytes=0)
        assert expected.shapes == tuple(tuple(x.shape) for x in outputs)
        found.append(compared(expected, outputs))
    monkeypatch.setattr("kbench.measure.correctness.expected.CHUNK_ELEMENTS", WHOLE)
    monkeypatch.setattr("kbench.measure.correctness.expected.CHUNK_LEAST", 4)  # kept in one piece, compared in slices
    expected = Expected(definition, inputs)
    found += [compared(expected, outputs), compared(expected, outputs)]
    monkeypatch.undo()
    return found


@pytest.mark.parametrize("sizes", [(8, 8), (3, 1)], ids=str)
@pytest.mark.parametrize("name", OPERATORS)
def test_right_outputs_are_right_in_slices_of_any_size(
    name: str, sizes: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for verdict in verdicts(*OPERATORS[name].drawn("full", M=sizes[0], N=sizes[1]), monkeypatch):
        assert verdict.wrong is None


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
def test_wrong_outputs_are_wrong_in_the_same_words(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    definition, inputs, right = OPERATORS[name].drawn("full", M=3, N=4)
    for position, output in enumerate(right):
        spoilt = output.clone(memory_format=torch.contiguous_format)
        flat = spoilt.view(-1)
        flat[-1] += 3
        outputs = [*right[:position], spoilt, *right[position + 1 :]]
        sentences = {
            str(each.wrong).partition(" instead of ")[0] for each in verdicts(definition, inputs, outputs, monkeypatch)
        }
        assert len(sentences) == 1, sentences
        (sentence,) = sentences
        assert f"1 of {len(flat)} elements wrong" in sentence or "elements zero" in sentence, sentence


def test_a_gradient_without_rows_is_the_sum_over_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbench.measure.correctness.expected.CHUNK_ELEMENTS", 10)
    definition, inputs, (_, dw) = OPERATORS["linear"].drawn("backward", M=12, N=5)
    parts = {
        part.position: part for part in Expected(definition, inputs, keep_bytes=0).parts() if part.dimension is None
    }
    assert list(parts) == [1]
    x, _, dy = (each.double() for each in inputs)
    assert torch.allclose(parts[1].reference, dy.t() @ x)
    assert torch.allclose(dw.double(), parts[1].reference, atol=1e-5)


def test_a_reference_whose_shape_depends_on_the_rows_of_large_cases_is_at_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kbench.measure.correctness.expected.CHUNK_ELEMENTS", 32)
    cut = matrices("slices-cut", lambda x: x[:3] if len(x) < 8 else x, rows="M")
    expected = Expected(Definition(cut, cut.case(M=8, N=8)), [torch.ones(8, 8)])
    with pytest.raises(OperatorFault, match=r"shape \(3, 8\) for y when it was given 4 rows .* leave out rows='M'"):
        expected.compute()
