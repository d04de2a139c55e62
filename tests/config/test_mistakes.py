"""Mistakes in configs: what is refused, and that every refusal says where and what to do. Tests compare the whole line."""

from __future__ import annotations

import pytest
from sample_configs import BROKEN, SOFTMAX, errors, minimal

# Mistakes: the whole line that the user sees.
ROWS = "triton-row[num_warps=4], triton-row[num_warps=8], triton-row[num_warps=16]"

PROVIDER = "providers: expected a provider's name, or one name with its parameters indented below it"

POINTS = "expected an integer, a list of integers, {pow2: [a, b]} or {start, stop, step}"


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("  M: 4096\n", "", "3:3: sweep: no values for M; give sizes, for example M: [1024, 4096]"),
        ("M: 4096", 'M: "4096"', f'3:6: M: {POINTS}; got "4096"'),
        ("M: 4096", "M: {pow2: [9, 3]}", '3:6: M: expected the smaller exponent first; got {"pow2": [9, 3]}'),
        ("M: 4096", "M: {pow2: [3, 4], start: 1}", '3:21: unknown key "start"; choose from pow2'),
        ("M: 4096", "M: {pow2: [9]}", "3:13: pow2: expected 2 or more elements; got [9]"),
        ("M: 4096", "M: {pow2: [9, 63]}", "3:17: pow2: expected at most 62; got 63"),
        ("M: 4096", "M: {start: 0, stop: 4611686018427387904, step: 1}",
         "3:3: sweep: 451,945,229,805,884,014,690 cases; the limit is 1,000,000"),
        ("- triton\n", "- cuda:\n    threads: 4\n", f'7:5: {PROVIDER}; got {{"cuda": null, "threads": 4}}'),
        ("[4, 8, 16]", "[4, [8]]", "9:29: num_warps: expected a value or a list of values; got [4, [8]]"),
        ("baseline: torch-native", "baseline: cuda",
         f'10:11: unknown baseline "cuda"; choose from triton, torch-native, triton-row, {ROWS}'),
        ("baseline: torch-native", "baseline: triton-row",
         f'10:11: baseline "triton-row" has 3 configurations; name one: {ROWS}'),
        ("warmup_ms: 10", "warmup_ms: 1e999", "11:52: warmup_ms: expected a finite number; got Infinity"),
        ("warmup_ms: 10", "precision: 0.5 ms", '11:52: precision: expected a number; got "0.5 ms"'),
        ("warmup_ms: 10", "max_ms: 10",
         "11:41: max_ms limits the rounds that are added for `precision`; either also set `precision`, or leave out max_ms"),
        ("M: 4096", "M: a: 1",
         "3:7: mapping values are not allowed here; check the brackets, quotes and indentation up to here"),
        ("M: 4096", "? [a]\n  : 1", "3:5: a key must be a word"),
    ],
)  # fmt: skip
def test_one_mistake_is_one_line_that_says_where(right: str, wrong: str, message: str) -> None:
    assert right in SOFTMAX
    assert errors(SOFTMAX.replace(right, wrong, 1)) == [f"x.yaml:{message}"]


EMPTY = ": the file has no keys (it is empty or holds only comments); `kbench init` writes a config to start from"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", EMPTY),
        ("softmax\n", ':1:1: expected a mapping; got "softmax"'),
        ("a: 1\n---\nb: 2\n", ":2:1: expected a single document in the stream from line 1, but found another document"),
        (b"operator: s\xe9\n", ": is not UTF-8 text; save the file as UTF-8"),
        (
            "a: 1\nb: \x00\n",
            ': unacceptable character #x0000: special characters are not allowed in "<unicode string>", position 8; remove it',
        ),
    ],
    ids=["empty", "word", "documents", "latin-1", "nul"],
)
def test_files_that_are_no_configs(text: str | bytes, message: str) -> None:
    assert errors(text) == [f"x.yaml{message}"]


def test_a_baseline_that_the_profile_removed_is_an_error() -> None:
    text = minimal(rest="baseline: triton\nprofiles: {a: {providers: [cuda, torch-native]}}")
    assert errors(text, profile="a") == ['x.yaml:4:11: unknown baseline "triton"; choose from cuda, torch-native']


def test_an_unknown_operator_may_be_in_a_plugin_that_failed() -> None:
    [line] = errors(minimal(operator="cumsum"), failures=(BROKEN,))
    assert line == (
        'x.yaml:1:11: unknown operator "cumsum"; choose from softmax, gelu; '
        "plug-in mine (my.kernels) failed: my.py:3: NameError: name 'x' is not defined"
    )


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("N", "expected key=value, for example N=1024,4096 or rounds=3"),
        ("=3", "expected key=value, for example N=1024,4096 or rounds=3"),
        ("N=abc", f'N: {POINTS}; got "abc"'),
        ("N=[1", "while parsing a flow sequence, expected ',' or ']', but got '<stream end>'"),
        (
            "N=1], [2",
            "expected '<document start>', but found ','; check the brackets, quotes and indentation up to here",
        ),
        ("rounds=0", "rounds: expected at least 1; got 0"),
        ("measure.round=3", 'unknown key "round"; did you mean "rounds"?'),
        ("baseline=tritn", 'unknown baseline "tritn"; did you mean "triton"?'),
    ],
)
def test_mistakes_in_set(argument: str, message: str) -> None:
    assert errors(SOFTMAX, sets=[argument]) == [f"--set {argument}: {message}"]


def test_only_without_a_name_is_a_mistake() -> None:
    assert errors(SOFTMAX, only=[","]) == ["--only ,: expected providers or configurations, for example triton,cuda"]
