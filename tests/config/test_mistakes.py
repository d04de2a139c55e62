"""Mistakes in configs: what is refused, and that every refusal says where and what to do. Tests compare the whole line."""

from __future__ import annotations

from pathlib import Path

import pytest
from sample_configs import BROKEN, SOFTMAX, errors, minimal

from kbench.config import load as configs
from kbench.errors import MOST_ISSUES, ConfigError

# Mistakes: the whole line that the user sees.
ROWS = "triton-row[num_warps=4], triton-row[num_warps=8], triton-row[num_warps=16]"

PROVIDER = "providers: expected a provider's name, or one name with its parameters indented below it"

POINTS = "expected an integer, a list of integers, {pow2: [a, b]} or {start, stop, step}"


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("  M: 4096", "  M: 4096\n  K: 3", '4:3: unknown axis "K"; choose from M, N, dtype'),
        ("  M: 4096\n", "", "3:3: sweep: no values for M; give sizes, for example M: [1024, 4096]"),
        ("M: 4096", 'M: "4096"', f'3:6: M: {POINTS}; got "4096"'),
        ("M: 4096", "M: [1, two]", '3:10: M: expected an integer; got "two"'),
        ("M: 4096", "M: {pow2: [9, 3]}", '3:6: M: expected the smaller exponent first; got {"pow2": [9, 3]}'),
        ("M: 4096", "M: {pow2: [3, 4], start: 1}", '3:21: unknown key "start"; choose from pow2'),
        ("M: 4096", "M: {pow2: [9]}", "3:13: pow2: expected 2 or more elements; got [9]"),
        ("M: 4096", "M: {pow2: [9, 63]}", "3:17: pow2: expected at most 62; got 63"),
        ("step: 128", "stp: 128", '4:32: unknown key "stp"; did you mean "step"?'),
        (", step: 128", "", '4:6: missing key "step"'),
        ("M: 4096", "M: {start: 0, stop: 4611686018427387904, step: 1}",
         "3:3: sweep: 451,945,229,805,884,014,690 cases; the limit is 1,000,000"),
        ("dtype: float32", "dtype: [bf16, int8]",
         '5:17: the operator does not list the dtype "int8"; choose from float32, float16, bfloat16, or add it to dtypes= of '
         'the operator'),
        ("- triton\n", "- triton: {x: 1}\n", '7:14: triton takes no parameters; remove "x"'),
        ("- triton\n", "- cuda:\n    threads: 4\n", f'7:5: {PROVIDER}; got {{"cuda": null, "threads": 4}}'),
        ("[4, 8, 16]", "[4, [8]]", "9:29: num_warps: expected a value or a list of values; got [4, [8]]"),
        ("[4, 8, 16]", "[4, 4]", '9:5: duplicate configuration "triton-row[num_warps=4]"'),
        ("baseline: torch-native", "baseline: cuda",
         f'10:11: unknown baseline "cuda"; choose from triton, torch-native, triton-row, {ROWS}'),
        ("baseline: torch-native", "baseline: triton-row",
         f'10:11: baseline "triton-row" has 3 configurations; name one: {ROWS}'),
        ("warmup_ms: 10", "warmup_ms: 1e999", "11:52: warmup_ms: expected a finite number; got Infinity"),
        ("warmup_ms: 10", "precision: 60%", '11:52: precision: expected at most 0.5; got "60%"'),
        ("warmup_ms: 10", "precision: 0.5 ms", '11:52: precision: expected a number; got "0.5 ms"'),
        ("warmup_ms: 10", "max_ms: 10",
         "11:41: max_ms limits the rounds that are added for `precision`; either also set `precision`, or leave out max_ms"),
        ("  quick:", "  none:", '14:3: a profile cannot have the name `none`, '
         'because `--profile none` means no profile; rename it'),
        ("M: 4096", "M: a: 1",
         "3:7: mapping values are not allowed here; check the brackets, quotes and indentation up to here"),
        ("M: 4096", "M: [1, 2", "4:4: while parsing a flow sequence from line 3, expected ',' or ']', but got ':'"),
        ("M: 4096", "M: !!python/object/apply:os.system [ls]",
         "3:6: YAML tag !!python/object/apply:os.system is not allowed; remove it"),
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
        ("# nothing but a comment\n", EMPTY),
        ("softmax\n", ':1:1: expected a mapping; got "softmax"'),
        ("- softmax\n", ':1:1: expected a mapping; got ["softmax"]'),
        ("a: 1\n---\nb: 2\n", ":2:1: expected a single document in the stream from line 1, but found another document"),
        (b"operator: s\xe9\n", ": is not UTF-8 text; save the file as UTF-8"),
        (
            "a: 1\nb: \x00\n",
            ': unacceptable character #x0000: special characters are not allowed in "<unicode string>", position 8; remove it',
        ),
    ],
    ids=["empty", "comment", "word", "list", "documents", "latin-1", "nul"],
)
def test_files_that_are_no_configs(text: str | bytes, message: str) -> None:
    assert errors(text) == [f"x.yaml{message}"]


def test_a_mapping_where_a_list_is_wanted_and_the_other_way_round() -> None:
    keys_of_a_file = ("operator", "sweep", "providers", "baseline", "measure", "plugins", "profiles")
    text = "".join(f"{key}: 3\n" for key in keys_of_a_file)
    assert errors(text) == [
        "x.yaml:1:11: operator: expected a word; got 3",
        "x.yaml:2:8: sweep: expected a mapping; got 3",
        "x.yaml:3:12: providers: expected a list; got 3",
        "x.yaml:4:11: baseline: expected a word; got 3",
        "x.yaml:5:10: measure: expected a mapping; got 3",
        "x.yaml:6:10: plugins: expected a list; got 3",
        "x.yaml:7:11: profiles: expected a mapping; got 3",
    ]


def test_missing_files_and_folders() -> None:
    for path, message in (("nope.yaml", "no such file or directory"), (".", "is a directory; name a YAML config")):
        with pytest.raises(ConfigError) as caught:
            configs.load_config(path)
        assert str(caught.value).startswith(f"{path}: {message}")


def test_all_mistakes_are_reported_at_once_in_the_order_of_the_file() -> None:
    text = SOFTMAX
    for right, wrong in (("M: 4", "m: 4"), ("float32", "fp31"), ("- triton\n", "- tritn\n"), ("num_warps", "warps")):
        text = text.replace(right, wrong)
    assert errors(text, sets=["n=3", "round=2"], only=["x"]) == [
        '--set n=3: unknown axis "n"; did you mean "N"?',
        '--set round=2: unknown key "round"; did you mean "rounds"?',
        'x.yaml:3:3: unknown axis "m"; did you mean "M"?',
        'x.yaml:5:10: unknown dtype "fp31"; did you mean "fp32"?',
        'x.yaml:7:5: unknown provider "tritn"; did you mean "triton"?',
        'x.yaml:9:18: unknown triton-row parameter "warps"; did you mean "num_warps"?',
    ]


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
        ("N=", "expected key=value, for example N=1024,4096 or rounds=3"),
        ("=3", "expected key=value, for example N=1024,4096 or rounds=3"),
        ("N=abc", f'N: {POINTS}; got "abc"'),
        ("N=[1", "while parsing a flow sequence, expected ',' or ']', but got '<stream end>'"),
        (
            "N=1], [2",
            "expected '<document start>', but found ','; check the brackets, quotes and indentation up to here",
        ),
        ("N=!!python/name:os.system", "YAML tag !!python/name:os.system is not allowed; remove it"),
        ("rounds=0", "rounds: expected at least 1; got 0"),
        ("measure.round=3", 'unknown key "round"; did you mean "rounds"?'),
        ("meassure.rounds=3", 'unknown key "meassure"; did you mean "measure"?'),
        ("round=3", 'unknown key "round"; did you mean "rounds"?'),
        ("dtype=fp31", 'unknown dtype "fp31"; did you mean "fp32"?'),
        ("baseline=tritn", 'unknown baseline "tritn"; did you mean "triton"?'),
    ],
)
def test_mistakes_in_set(argument: str, message: str) -> None:
    assert errors(SOFTMAX, sets=[argument]) == [f"--set {argument}: {message}"]


def test_mistakes_in_the_other_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert errors(SOFTMAX, profile="quik") == ['--profile quik: unknown profile "quik"; did you mean "quick"?']
    assert errors(SOFTMAX, only=["tritn,triton"]) == [
        '--only tritn,triton: unknown provider "tritn"; did you mean "triton"?'
    ]
    assert errors(SOFTMAX, only=[","]) == ["--only ,: expected providers or configurations, for example triton,cuda"]
    Path("notes.txt").write_text("")
    assert errors(SOFTMAX, plugins=["no.py", "notes.txt"]) == [
        "--plugin no.py: no such file: no.py; name a Python file",
        "--plugin notes.txt: notes.txt is not a Python file; its name must end in .py",
    ]


def test_thousands_of_mistakes_are_counted() -> None:
    lines = errors(SOFTMAX + "".join(f"k{n}: 1\n" for n in range(200)))
    assert len(lines) == MOST_ISSUES + 1 and lines[-1] == "x.yaml: and 150 more problems"
