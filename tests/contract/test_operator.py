"""What an operator must not declare: each fault is a ValueError with one sentence that says what to do."""

from __future__ import annotations

from typing import Any

import pytest

from kbench.contract.operator import Operator, registered
from kbench.contract.tensor import Tensor, integers

pytestmark = pytest.mark.usefixtures("no_operators")

MATRIX, ROW, LABELS = Tensor("M", "N"), Tensor("N"), Tensor("M", dtype="int64", fill=integers("N"))


def declared(**fields: Any) -> Operator:
    """An operator `mine` with one input and one output, and these fields."""
    sound: dict[str, Any] = {
        "axes": ("M", "N"),
        "inputs": {"x": MATRIX},
        "outputs": {"y": MATRIX},
        "reference": lambda *inputs, **keywords: inputs[0],
    }
    return Operator("mine", **(sound | fields))


# tests/promises/test_operators.py has the mistakes that are made most often
FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"scalars": {"eps": "1e-6"}}, "the default of scalar eps is '1e-6'; it must be a finite number, True or False"),
    ({"model_axes": {"N": "hiden"}}, 'model_axes: N: unknown name "hiden"; did you mean "hidden"?'),
    (
        {"model_axes": [{"M": "tokens", "N": "hidden"}, {"N": "vocabulary"}]},
        "model_axes: all mappings must have the same axes; add the axes that are missing",
    ),
    ({"choices": {"form": "tanh"}}, "choices: form is 'tanh'; it must be a tuple of words"),
    (
        {"inputs": {"x": MATRIX, "w": Tensor("N", dtype="kept")}, "choices": {"kept": ("same", "wide")}},
        'choice kept, which sets the dtype of a tensor: unknown name "wide"',
    ),
    (
        {"inputs": {"w": Tensor("N", dtype="kept")}, "choices": {"kept": ("int32", "int64")}},
        "w: an input of dtype int32 needs a fill",
    ),
    (
        {"rows": "N", "inputs": {"x": Tensor("M", "2*N")}},
        "rows='N' does not work with x: at most one dimension may have",
    ),
    ({"rows": "M", "outputs": {"y": ROW}}, "rows='M': output y has no axis M, so it has no independent rows"),
    (
        {"mutates": {"x": "y"}, "outputs": {"y": ROW}},
        "mutates: x cannot hold y, which has other sizes or another dtype",
    ),
    (
        {"mutates": {"x": "y", "z": "y"}, "inputs": {"x": MATRIX, "z": MATRIX}},
        "the same output is named twice; name each",
    ),
    ({"scale": max, "outputs": {"y": MATRIX, "z": ROW}}, "scale works with one output only; leave it out, and kbench"),
]


@pytest.mark.parametrize(("fields", "says"), FAULTS, ids=lambda value: value[:40] if isinstance(value, str) else "")
def test_a_fault_is_one_sentence(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match="operator 'mine': ") as refused:
        declared(**fields)
    said = str(refused.value)
    assert said.startswith(f"operator 'mine': {says}") and said.isprintable() and len(said) < 300
    assert registered == {}


def test_a_choice_can_name_the_dtype_of_a_tensor() -> None:
    weight = Tensor("N", dtype="kept")
    mine = declared(
        inputs={"x": MATRIX, "weight": weight},
        choices={"kept": ("same", "float32")},
        reference=lambda x, weight: x * weight,  # it sees the dtype: it needs no argument `kept`
        gradients=("weight",),
    )

    @mine.provider("any", supports=lambda case: "takes float32 only" if case.kept == "same" else None)
    def any_dtype(x: Any, weight: Any) -> Any: ...

    same, wide = mine.case("bfloat16", M=2, N=3), mine.case("bfloat16", M=2, N=3, kept="float32")
    assert (weight.dtype_in(same), weight.dtype_in(wide)) == ("bfloat16", "float32")
    assert mine.call_bytes(wide, {}) - mine.call_bytes(same, {}) == 3 * (4 - 2)
    assert mine.providers["any"].declines(same) == "takes float32 only"
    assert mine.providers["any"].declines(wide) is None, "no argument `kept` is needed"
