"""Configs: what a good one becomes."""

from __future__ import annotations

import subprocess
import sys

import pytest
from common import ROOT
from sample_configs import SOFTMAX, errors, minimal, names, resolve, sizes

from kbench.config.schema import Measure
from kbench.protocol import Configuration


# What a good config becomes.
def test_the_example_of_the_design() -> None:
    sweep = resolve(SOFTMAX)
    assert (sweep.operator, sweep.axes, sweep.text) == ("softmax", ("M", "N"), SOFTMAX)
    assert sizes(sweep) == [128 * i for i in range(2, 100)]  # stop is included
    assert {(case.M, case.dtype) for case in sweep.cases} == {(4096, "float32")}
    assert names(sweep) == ["triton", "torch-native", *(f"triton-row[num_warps={n}]" for n in (4, 8, 16))]
    assert sweep.configurations[2] == Configuration("triton-row", {"num_warps": 4})
    assert sweep.baseline == "torch-native"
    assert sweep.measure == Measure(warmup_ms=10, rep_ms=20)
    assert (sweep.profile, sweep.profile_automatic) == (None, False)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ("7", [7]),
        ("0", [0]),
        ("[3, 1, 3]", [3, 1]),  # a case that occurs twice is measured once
        ("{pow2: [8, 11]}", [256, 512, 1024, 2048]),
        ("{pow2: [0, 0]}", [1]),
        ("{start: 1, stop: 10, step: 4}", [1, 5, 9]),
        ("{start: 5, stop: 5, step: 1}", [5]),
    ],
)
def test_values_of_an_axis(values: str, expected: list[int]) -> None:
    assert sizes(resolve(minimal(f"{{M: 1, N: {values}}}"))) == expected


def test_the_last_axis_varies_fastest_and_dtypes_slowest() -> None:
    sweep = resolve(minimal("{N: [1, 2], dtype: [fp16, bf16], M: [3, 4]}"))
    points = [(case.dtype, case.M, case.N) for case in sweep.cases]
    assert points == [(d, m, n) for d in ("float16", "bfloat16") for m in (3, 4) for n in (1, 2)]
    assert list(sweep.cases[0].axes) == ["M", "N"]


def test_a_list_of_mappings_is_a_list_of_products_and_shared_cases_count_once() -> None:
    sweep = resolve(minimal("[{M: 1, N: [2, 3]}, {M: [1, 4], N: 3}]"))
    assert [(case.M, case.N) for case in sweep.cases] == [(1, 2), (1, 3), (4, 3)]


def test_choices_are_columns_and_default_to_their_first_word() -> None:
    sweep = resolve(minimal(operator="gelu"))
    assert sweep.axes == ("M", "N", "approximate")
    assert sweep.cases[0].axes == {"M": 1, "N": 2, "approximate": "tanh"}
    sweep = resolve(minimal("{M: 1, N: 2, approximate: [none, tanh]}", operator="gelu"))
    assert sizes(sweep, "approximate") == ["none", "tanh"]


def test_every_combination_of_parameters_is_a_configuration_named_in_the_providers_own_order() -> None:
    both = "triton-row: {num_stages: [2, 3], num_warps: [4, 8]}"
    sweep = resolve(minimal(providers=f"[{both}, triton-row: {{num_warps: null}}]"))
    pairs = [f"triton-row[num_warps={w},num_stages={s}]" for w in (4, 8) for s in (2, 3)]
    assert names(sweep) == [*pairs, "triton-row[num_warps=None]"]


def test_parameters_may_be_numbers_words_booleans_and_null() -> None:
    sweep = resolve(minimal(providers="[triton-row: {num_warps: [4, 0.5, true, word, null]}]"))
    assert [configuration.params["num_warps"] for configuration in sweep.configurations] == [4, 0.5, True, "word", None]


@pytest.mark.parametrize(
    ("baseline", "expected"),
    [("", "triton"), ("baseline: cuda", "cuda"), ("baseline: triton-row[num_warps=4]", "triton-row[num_warps=4]"),
     ("baseline: triton-row", "triton-row[num_warps=4]")],
)  # fmt: skip
def test_the_baseline_is_a_provider_or_a_configuration_and_by_default_the_first(baseline: str, expected: str) -> None:
    assert resolve(minimal(providers="[triton, cuda, triton-row: {num_warps: 4}]", rest=baseline)).baseline == expected


def test_a_provider_without_parameters_is_a_baseline_beside_its_parametrised_configurations() -> None:
    text = minimal(providers="[triton-row, triton-row: {num_warps: [4, 8]}]", rest="baseline: triton-row")
    assert resolve(text).baseline == "triton-row"


def test_aliases_and_quotes_are_yaml_as_usual() -> None:
    sweep = resolve(minimal("[{M: &m [1, 2], N: *m}]", providers="[\"triton\", 'cuda']"))
    assert len(sweep.cases) == 4 and names(sweep) == ["triton", "cuda"]


def test_merge_keys_are_refused_by_their_name() -> None:
    text = minimal("[&a {M: 1, N: 2}, {<<: *a, N: 3}, {<<: [*a]}]")
    line = "merge keys (<<) are not supported; write the keys out"
    assert errors(text) == [f"x.yaml:2:27: {line}", f"x.yaml:2:43: {line}"]


def test_a_byte_order_mark_is_ignored() -> None:
    mark = b"\xef\xbb\xbf"
    assert resolve(mark + minimal().encode()).operator == "softmax"
    assert errors(mark + minimal(operator="gleu").encode()) == [
        'x.yaml:1:11: unknown operator "gleu"; did you mean "gelu"?'
    ]


def test_nothing_heavy_is_imported() -> None:
    code = "import sys, kbench.config.load; print({'torch', 'pandas', 'numpy', 'matplotlib'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"
