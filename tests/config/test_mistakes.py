"""Mistakes in configs that tests/promises/test_config.py does not make: the whole line that the user reads."""

from __future__ import annotations

import pytest
from sample_configs import BROKEN, OPERATORS, SOFTMAX, errors, minimal

ROWS = "triton-row[num_warps=4], triton-row[num_warps=8], triton-row[num_warps=16]"


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("  M: 4096\n", "", "3:3: sweep: no values for M; give sizes, for example M: [1024, 4096]"),
        ("sweep:", "rounds: 3\nsweep:", "2:1: rounds belongs under measure"),
        ("M: 4096", "M: {pow2: [3, 4], start: 1}", '3:21: unknown key "start"; choose from pow2'),
        ("M: 4096", "M: {start: 0, stop: 4611686018427387904, step: 1}",
         "3:3: sweep: 451,945,229,805,884,014,690 cases; the limit is 1,000,000"),
        ("[4, 8, 16]", "[4, [8]]", "9:29: num_warps: expected a value or a list of values; got [4, [8]]"),
        ("baseline: torch-native", "baseline: triton-row",
         f'10:11: baseline "triton-row" has 3 configurations; name one: {ROWS}'),
        ("warmup_ms: 10", "max_ms: 10",
         "11:41: max_ms limits the rounds that are added for `precision`; either also set `precision`, or leave out max_ms"),
        ("M: 4096", "? [a]\n  : 1", "3:5: a key must be a word"),
    ],
)  # fmt: skip
def test_one_mistake_is_one_line_that_says_where(right: str, wrong: str, message: str) -> None:
    assert right in SOFTMAX
    assert errors(SOFTMAX.replace(right, wrong, 1)) == [f"x.yaml:{message}"]


def test_a_baseline_that_the_profile_removed_is_an_error() -> None:
    text = minimal(rest="baseline: triton\nprofiles: {a: {providers: [cuda, torch-native]}}")
    assert errors(text, profile="a") == ['x.yaml:4:11: unknown baseline "triton"; choose from cuda, torch-native']


def test_an_unknown_operator_or_provider_may_be_in_an_installed_plugin_that_failed() -> None:
    failure = "plug-in mine (my.kernels) failed: my.py:3: NameError: name 'x' is not defined"
    [line] = errors(minimal(operator="cumsum"), failures=(BROKEN,))
    advice = " (an operator of your own is in a plug-in: name the file under plugins)"
    assert line == f'x.yaml:1:11: unknown operator "cumsum"; choose from {", ".join(OPERATORS)}{advice}; {failure}'
    [line] = errors(minimal(providers="[mine]"), failures=(BROKEN,))
    assert 'unknown provider "mine"; ' in line and line.endswith(failure)
    [line] = errors(minimal(providers="[triton, torch-native]"), only=["cdua"])  # the operator has cuda
    assert line == '--only cdua: unknown provider "cdua"; choose from triton, torch-native'


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("N", "expected key=value, for example N=1024,4096 or rounds=3"),
        ("N=[1", "while parsing a flow sequence, expected ',' or ']', but got '<stream end>'"),
        ("baseline=tritn", 'unknown baseline "tritn"; did you mean "triton"?'),
        ("sweep.rounds=3", "rounds is a key of measure; move it there"),
    ],
)
def test_mistakes_in_set(argument: str, message: str) -> None:
    assert errors(SOFTMAX, sets=[argument]) == [f"--set {argument}: {message}"]
