"""What may be called how: a name that a run accepts is one that every reader of its results shows and stores."""

from __future__ import annotations

from typing import Any

import pytest

from kbench.contract.operator import Operator, registered
from kbench.contract.tensor import Tensor
from kbench.results.case import Case
from kbench.results.row import csv_header

pytestmark = pytest.mark.usefixtures("no_operators")


def operator(name: Any = "scale", axes: Any = ("M", "N"), **others: Any) -> Operator:
    tensors: dict[str, Any] = {"inputs": {"t": Tensor()}, "outputs": {"u": Tensor()}, "reference": lambda t, **words: t}
    return Operator(name, axes, **(tensors | others))


@pytest.mark.parametrize("name", ["a\nb", "\x1b]0;owned\x07", "a\udcff", "a\u2028b", "", " a ", 7])
def test_no_ugly_name_is_registered(name: Any) -> None:
    for arguments in (
        {"name": name},
        {"axes": ("M", name)},
        {"choices": {name: ("a", "b")}},
        {"choices": {"form": ("a", name)}},
    ):
        with pytest.raises(ValueError, match=r"a name|not printable") as refused:
            operator(**arguments)
        assert str(refused.value).isprintable()
    assert registered == {}
    with pytest.raises(ValueError, match=r"a name|not printable"):
        operator().provider(name)


@pytest.mark.parametrize(
    "axis", [*csv_header([]), *(name for name in dir(Case) if name[0] != "_"), "line", "file", "axes"]
)
def test_no_axis_has_the_name_of_a_column_or_of_an_attribute_of_a_case(axis: str) -> None:
    with pytest.raises(ValueError, match="rename the axis"):
        operator(axes=("M", axis))


@pytest.mark.parametrize("word", ["1", "1e-6", ".5", "true", "False"])
def test_a_choice_has_no_words_that_a_file_would_read_as_values(word: str) -> None:
    with pytest.raises(ValueError, match="reads as a number or a boolean; declare a scalar, or use another word"):
        operator(choices={"kind": ("a", word)})
