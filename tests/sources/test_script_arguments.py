"""The arguments of a script's function as columns, what a script reports, and what do_bench returns."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from kbench.sources.scripts.arguments import argument_columns, word, words_of
from kbench.sources.scripts.bench_call import BenchCall
from kbench.sources.scripts.reported import QuantityKind, classify, counted, numbers


def kinds(**values: object) -> dict[str, tuple[str, list[object]]]:
    """The kind and the values of each column, for arguments that are given as lists of values."""
    count = max(len(each) for each in values.values())  # type: ignore[arg-type]
    points = [{name: each[n % len(each)] for name, each in values.items()} for n in range(count)]  # type: ignore[index,arg-type]
    return {column.name: (column.kind, list(column.values)) for column in argument_columns(points)}


def test_whole_numbers_are_axes_and_other_numbers_are_scalars() -> None:
    found = kinds(M=[256, 512], N=[np.int64(3)], eps=[1e-5, 1], offset=[-1, 2], causal=[True, False])
    assert found == {
        "M": ("axis", [256, 512]),
        "N": ("axis", [3]),
        "eps": ("scalar", [1e-5, 1.0]),
        "offset": ("scalar", [-1, 2]),
        "causal": ("scalar", [True, False]),
    }


def test_a_size_that_the_script_does_not_list_is_given_as_it_is() -> None:
    [column] = argument_columns([{"N": np.int64(3)}])
    assert type(column.given(3)) is np.int64 and column.given(7) == 7


def test_the_first_dtype_is_that_of_the_case_and_others_are_words() -> None:
    found = kinds(dtype=[torch.float16, torch.bfloat16], out=["fp32", "fp16"], kind=["dtype"])
    assert found["dtype"] == ("dtype", ["float16", "bfloat16"])
    assert found["out"] == ("choice", ["fp32", "fp16"])


def test_a_name_that_kbench_uses_gets_an_underscore() -> None:
    assert list(kinds(provider=[1], mode=["a"], ms=[2], N=[3])) == ["provider_", "mode_", "ms_", "N"]


def test_objects_become_words_that_no_reader_takes_for_something_else() -> None:
    assert list(words_of([torch.relu, None, (8, 128), "a; b", "=1+1", "", "12", True])) == [
        "relu", "None", "8-128", "a b", "1+1", "empty", "'12'", "'True'"
    ]  # fmt: skip


def test_different_objects_with_the_same_text_get_different_words() -> None:
    class Named:
        def __str__(self) -> str:
            return "layer"

    one, other = Named(), Named()
    assert list(words_of([one, other, one])) == ["layer", "layer-2"]
    assert len(word("x" * 500, {})) <= 60


@pytest.mark.parametrize(
    ("first", "second", "quantity", "unit"),
    [
        (1e-4, 1e-3, QuantityKind.TIME, "ms"),
        (0.1, 1.0, QuantityKind.TIME, "us"),
        (100.0, 1000.0, QuantityKind.TIME, "ns"),
        (0.3, 3.0, QuantityKind.TIME, ""),
        (1000.0, 100.0, QuantityKind.RATE, ""),
        (333.0, 33.0, QuantityKind.RATE, ""),
        (2.0, 2.0, QuantityKind.OTHER, ""),
        (0.0, 0.0, QuantityKind.OTHER, ""),
        (-1.0, -10.0, QuantityKind.OTHER, ""),
    ],
)
def test_what_a_script_reports_follows_from_how_it_scales(
    first: float, second: float, quantity: QuantityKind, unit: str
) -> None:
    found = classify(first, second, 1e-4)
    assert (found.quantity, found.unit) == (quantity, unit)


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("GB/s", ("bytes", 1e6)),
        ("Bandwidth (GBps)", ("bytes", 1e6)),
        ("GiB/s", ("bytes", 1073742.0)),
        ("TFLOPS", ("flops", 1e9)),
        ("speed", None),
    ],
)
def test_a_label_says_what_a_rate_counts(label: str, expected: tuple[str, float] | None) -> None:
    assert counted(1.0, 1.0, label) == expected


def test_numbers_of_a_script_are_the_first_of_a_tuple_or_those_of_a_dict() -> None:
    assert numbers((1, 2, 3)) == {"": 1.0} and numbers({"ms": 1, "name": "x"}) == {"ms": 1.0}
    assert numbers(None) == numbers(math.nan) == numbers(()) == {}


def test_do_bench_returns_what_was_asked_for() -> None:
    samples = [4.0, 1.0, 2.0, 3.0]

    def returned(**asked: object) -> object:
        return BenchCall(lambda: None, "bench.py:1", **asked).returned(samples)  # type: ignore[arg-type]

    assert returned() == 2.5 and returned(return_mode="median") == 2.5
    assert (returned(return_mode="min"), returned(return_mode="max")) == (1.0, 4.0)
    assert returned(return_mode="all") == samples
    assert returned(quantiles=[0.5]) == 2.5 and returned(quantiles=[0.0, 0.5, 1.0]) == [1.0, 2.5, 4.0]
    with pytest.raises(ValueError, match="the modes are min, max, mean, median, all"):
        returned(return_mode="mode")
