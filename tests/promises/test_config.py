"""The config language: what a config measures, and where its mistakes are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from promises.outside import Ended, Kbench, MadeOnce, Write, folder_of, kept, lines_with

Plan = Callable[..., Ended]

CONFIG = Path(__file__).with_name("operators") / "shift.yaml"
PLUGIN = CONFIG.with_name("shift.py")
HEAD = f"operator: shift\nplugins: [{PLUGIN}]\nproviders: [torch]\n"


@pytest.fixture
def plan(made_once: MadeOnce) -> Plan:
    """What `kbench run operators/shift.yaml --dry-run OPTIONS` prints."""

    def plan(*options: str) -> Ended:
        name = "plan" + "".join(letter if letter.isalnum() else "-" for letter in "".join(options))
        folder = folder_of(made_once, name, {}, "run", CONFIG, "--dry-run", *options)
        assert not (folder / "results").exists()
        return kept(folder)

    return plan


NONE = ("--profile", "none")


def cases(ended: Ended, M: int, *words: object) -> list[str]:
    """The lines of a plan about cases of this M that have these sizes and words."""
    return [line for line in lines_with(ended.out, *words) if line.split()[:1] == [str(M)]]


def test_every_combination_of_values_is_a_case_and_a_range_includes_its_ends_also_of_a_scalar(plan: Plan) -> None:
    planned = plan(*NONE)
    for M in (2, 4, 8):
        for N in (10, 20, 30):
            assert len(cases(planned, M, N, "float16")) == 1
    planned = plan(*NONE)
    assert cases(planned, 8, 30) and not cases(planned, 8, 40)
    assert cases(planned, 31, 40) and cases(planned, 31, 50) and not cases(planned, 31, 60)
    assert [len(cases(planned, M)) for M in (1, 2, 4, 8, 16)] == [0, 3, 3, 3, 0], "powers of two"
    assert len(cases(planned, 31, 128)) == len(cases(planned, 31, 256)) == 4


def test_scalars_choices_and_modes_are_swept_and_have_a_default(plan: Plan) -> None:
    planned = plan(*NONE)
    assert len(cases(planned, 1000, 2000, "1e-06", 1, "False", "plain", "forward", "float32")) == 1
    for mode in ("forward", "backward", "full"):
        assert len(cases(planned, 33, 70, mode, "float32")) == len(cases(planned, 33, 70, mode, "bfloat16")) == 1
    assert len(cases(planned, 31, 40, 128, "1e-05")) == len(cases(planned, 31, 50, 256, 0.25)) == 1
    for causal in ("True", "False"):
        assert len(cases(planned, 32, causal, "plain")) == len(cases(planned, 32, causal, "squared")) == 1


def test_a_list_of_mappings_is_measured_in_its_order_and_a_case_that_occurs_twice_once(plan: Plan) -> None:
    planned = plan(*NONE)
    sizes = [int(line.split()[0]) for line in lines_with(planned.out, "forward")]
    assert sizes == sorted(sizes) and sizes[0] == 2 and sizes[-1] == 1000
    assert len(cases(planned, 33, 60, "forward", "float32")) == 1


def test_a_dry_run_prints_the_size_of_the_run_and_of_each_case_all_configurations_and_who_cannot_run(
    plan: Plan,
) -> None:
    out = plan(*NONE).out
    for block in (1, 2):
        for warps in (3, 5):
            assert lines_with(out, f"mine[block={block},warps={warps}]")
    planned = plan(*NONE)
    assert planned.code == 0 and lines_with(planned.out, 34, "cases", 2, "rounds", 3, "sessions")
    assert cases(planned, 1000, 2000, "12.0")  # megabytes per call: 8 of x and 4 of y
    assert "a_package_that_nobody_has" in lines_with(planned.out, "mine[block=1,warps=3]")[0]


@pytest.fixture
def with_model(made_once: MadeOnce) -> Ended:
    text = HEAD + "sweep: {model: gemma-2-9b, M: [512, 1000000000]}\nmeasure: {rounds: 2, sessions: 3}\n"
    files = {"m.yaml": text + "profiles: {cpu: {measure: {rounds: 4}}}\n"}
    return kept(folder_of(made_once, "with-model", files, "run", "m.yaml", "--dry-run"))


def test_without_an_accelerator_the_profile_cpu_applies_and_kbench_says_so(with_model: Ended) -> None:
    if torch.accelerator.is_available():
        pytest.skip("there is an accelerator")
    assert "cpu" in with_model.err and "m.yaml" in with_model.err
    assert lines_with(with_model.out, 4, "rounds", 3, "sessions"), "the profile replaces rounds and leaves sessions"


def test_a_profile_replaces_single_keys_of_each_mapping_and_whole_lists(plan: Plan) -> None:
    planned = plan("--profile", "wide")
    assert cases(planned, 99, "bfloat16") == [line for line in planned.out.splitlines() if "float" in line]
    assert len(cases(planned, 99, 20)) == 1, "N of the config stays"
    assert lines_with(planned.out, 9, "rounds", 3, "sessions")
    assert lines_with(planned.out, "torch") and "mine" not in planned.out


SETS = ["M=3", "N=6,8", "eps=1e-4", "causal=true", "form=squared", "mode=full", "dtype=bf16", "times=5"]
SETS += ["measure.rounds=8", "sessions=1"]
OPTIONS = [*NONE, *(word for change in SETS for word in ("--set", change)), "--only", "mine[block=2,warps=3],torch"]
OPTIONS += ["--sessions", "3"]


def test_set_replaces_values_and_keys_of_measure_and_only_keeps_the_configurations_that_it_names(plan: Plan) -> None:
    planned = plan(*OPTIONS)
    assert len(cases(planned, 3, 6, 0.0001, 5, "True", "squared", "full", "bfloat16")) == len(cases(planned, 3, 8)) == 1
    out = planned.out
    assert lines_with(out, 2, "cases", 8, "rounds", 3, "sessions"), "an option of its own counts more than --set"
    assert lines_with(out, "torch") and lines_with(out, "mine[block=2,warps=3]") and "block=1" not in out


MODELS = ("--set", "model=llama-3-8b,qwen3-8b,gemma-2-9b", "--set", "tokens=7,64", "--set", "dtype=bf16")


def test_a_model_and_tokens_give_the_sizes_of_the_axes(plan: Plan) -> None:
    planned = plan(*NONE, *MODELS)
    for tokens in (7, 64):
        assert cases(planned, tokens, 3584, "gemma-2-9b") and cases(planned, tokens, 4096, "llama-3-8b")
    assert not cases(planned, 1000), "the sizes of the config are replaced"
    [line] = cases(planned, 7, 4096, "backward")
    assert "llama-3-8b" in line and "qwen3-8b" in line, "models with the same sizes are one case"


def test_an_axis_keeps_its_sizes_beside_a_model_and_too_large_cases_are_named(with_model: Ended) -> None:
    assert cases(with_model, 512, 3584, "gemma-2-9b")
    [line] = [line for line in with_model.out.splitlines() if "more memory" in line]
    assert line.startswith("1 of 2 cases") and "M=1000000000" in line


def test_a_file_of_shapes_replaces_the_sizes_and_weights_of_the_same_shape_add_up(made_once: MadeOnce) -> None:
    shapes = "M,N,dtype,weight\n1,4096,bfloat16,9200\n17,4098,float16,310\n1,4096,bf16,12\n"
    files = {"s.yaml": HEAD + "sweep: {M: 5, N: 6, eps: 0.5}\n", "trace.csv": shapes}
    planned = kept(folder_of(made_once, "shapes", files, "run", "s.yaml", "--dry-run", "--shapes", "trace.csv"))
    assert cases(planned, 1, 4096, 0.5, "bfloat16", 9212) and cases(planned, 17, 4098, 0.5, "float16", 310)
    assert lines_with(planned.out, 2, "cases")


# ---------------------------------------------------------------- mistakes


def line_at(place: str, ended: Ended) -> str:
    """The line of stderr that names this place: `x.yaml:5:3`, or an option as it was typed."""
    assert ended.code == 2 and ended.out == "", ended.text
    lines = [line for line in ended.err.splitlines() if f" {place}:" in line]
    assert lines, f"nothing about {place} in:\n{ended.err}"
    return "\n".join(lines)


def not_named(mistakes: dict[str, tuple[str, ...]], ended: Ended) -> list[str]:
    """The mistakes whose place has no line with these words."""
    assert ended.code == 2 and ended.out == "", ended.text
    lines = ended.err.splitlines()
    return [
        mistake
        for mistake, (place, *words) in mistakes.items()
        if not any(f" {place}: " in line and all(word in line for word in words) for line in lines)
    ]


FORM = """\
operater: shift
sweep: {M: {start: 8, stop: 4, step: 2}, A: [], B: {start: 1, stop: 2}, C: {start: 1, stop: 2, step: 0}}
providers: []
baseline: 3
measure: {rounds: 0, timer: do_bnch, cache: hot, stages: 1, warmup_ms: soon, precision: 60%, timeot_s: 3}
plugins: here.py
profiles: {quick: {mesure: {rounds: 1}}}
"""
FORM_MISTAKES = {
    "an unknown key": ("x.yaml:1:1", "operater", "operator"),
    "a range that ends before it starts": ("x.yaml:2:12", "start"),
    "an empty list of sizes": ("x.yaml:2:45", "A"),
    "a range without a step": ("x.yaml:2:52", "step"),
    "a step of zero": ("x.yaml:2:102", "step", "0"),
    "no provider": ("x.yaml:3:12", "providers"),
    "a number where a word belongs": ("x.yaml:4:11", "baseline", "3"),
    "no rounds": ("x.yaml:5:19", "rounds", "0"),
    "an unknown timer": ("x.yaml:5:29", "do_bnch", "do_bench"),
    "an unknown cache": ("x.yaml:5:45", "hot", "cold", "warm"),
    "a number where true or false belongs": ("x.yaml:5:58", "stages", "true", "false"),
    "a word where a number belongs": ("x.yaml:5:72", "warmup_ms", "soon"),
    "a precision of 60 percent": ("x.yaml:5:89", "precision", "60%"),
    "an unknown key of measure": ("x.yaml:5:94", "timeot_s", "timeout_s"),
    "a word where a list belongs": ("x.yaml:6:10", "plugins"),
    "an unknown key of a profile": ("x.yaml:7:20", "mesure", "measure"),
}


def test_a_mistake_is_named_with_file_line_and_column(kbench: Kbench, write: Write) -> None:
    write("x.yaml", FORM)
    ended = kbench("run", "x.yaml", "--dry-run")
    assert not_named(FORM_MISTAKES, ended) == []
    assert len(ended.err.splitlines()) == len(FORM_MISTAKES), ended.err


MEANING = """\
operator: shift
plugins: [shift.py]
sweep:
  M: [4, -2, two]
  K: 8
  n: 6
  N: {pow: [1, 2]}
  dtype: [fp31, int8]
  causal: 2
  form: [sqared]
  mode: [backwards]
  eps: soon
providers: [torhc]
profiles:
  listed: {providers: [torch: {block: 2}, mine: {blok: [1, 2]}, mine: {block: [1, 1]}]}
"""
MEANING_MISTAKES = {
    "a negative size": ("x.yaml:4:10", "M", "-2"),
    "a size that is a word": ("x.yaml:4:14", "M", "two"),
    "an unknown axis": ("x.yaml:5:3", "K", "M", "N"),
    "a misspelt axis": ("x.yaml:6:3", "n", "N"),
    "an unknown kind of range": ("x.yaml:7:6", "pow"),
    "a misspelt dtype": ("x.yaml:8:11", "fp31", "fp32"),
    "a dtype that the operator does not have": ("x.yaml:8:17", "int8", "bfloat16"),
    "a number for a boolean scalar": ("x.yaml:9:11", "causal", "2"),
    "a misspelt choice": ("x.yaml:10:10", "sqared", "squared"),
    "a misspelt mode": ("x.yaml:11:10", "backwards", "backward"),
    "a word for a scalar": ("x.yaml:12:8", "eps", "soon"),
    "a misspelt provider, also in a list that a profile replaces": ("x.yaml:13:13", "torhc", "torch"),
    "a parameter of a provider that has none": ("x.yaml:15:32", "torch", "block"),
    "a misspelt parameter": ("x.yaml:15:50", "blok", "block"),
    "a configuration twice": ("x.yaml:15:65", "mine[block=1]"),
    "an unknown key of --set": ("--set roundz=2", "roundz", "rounds"),
    "an unknown axis of --set": ("--set m=3", "m", "M"),
}


def test_all_mistakes_of_a_config_and_of_set_are_named_at_once_with_near_words(kbench: Kbench, write: Write) -> None:
    write("x.yaml", MEANING.replace("shift.py", str(PLUGIN)))
    ended = kbench("run", "x.yaml", "--dry-run", "--profile", "listed", "--set", "roundz=2", "--set", "m=3")
    assert not_named(MEANING_MISTAKES, ended) == [], ended.err
    assert len(ended.err.splitlines()) == len(MEANING_MISTAKES)


def test_a_mistake_in_yaml_is_named_with_file_line_and_column(kbench: Kbench, write: Write) -> None:
    for text, place in {
        "operator: softmax\nsweep: {M: [1, 2\n": "x.yaml:3:1",
        "operator: softmax\nsweep:\n\tM: 1\n": "x.yaml:3:1",
        "operator: softmax\nsweep: {M: 1, N: 2, M: 4}\nproviders: [torch-native]\n": "x.yaml:2:21",
        "operator: softmax\nsweep: {M: 1, N: off}\nproviders: [torch-native]\n": "x.yaml:2:18",
        "operator: softmax\nsweep: {M: !!python/object/apply:os.system ['touch done'], N: 1}\n": "x.yaml:2:12",
        "\ufeffoperator: softmax\r\nswep: {M: 1, N: 2}\r\nproviders: [torch-native]\r\n": "x.yaml:2:1",
        "- softmax\n": "x.yaml:1:1",
        "": "x.yaml",
        "# only a comment\n": "x.yaml",
    }.items():
        write("x.yaml", text)
        assert len(line_at(place, kbench("run", "x.yaml", "--dry-run")).splitlines()) == 1, text


def test_every_required_key_that_is_missing_is_named(kbench: Kbench, write: Write) -> None:
    write("x.yaml", "baseline: torch\n")
    said = line_at("x.yaml:1:1", kbench("run", "x.yaml", "--dry-run"))
    assert all(f'"{key}"' in said for key in ("operator", "sweep", "providers"))


def test_a_config_of_the_folder_wins_over_a_built_in_one(kbench: Kbench, write: Write) -> None:
    write("softmax.yaml", "operator: softmax\n")
    line_at("softmax.yaml:1:1", kbench("run", "softmax", "--dry-run"))


@pytest.mark.parametrize(
    ("arguments", "place", "words"),
    [
        (("softmx",), "softmx", ["softmax"]),
        (("configs/swep.yaml",), "configs/swep.yaml", ["configs/sweep.yaml"]),
        (("configs/sweep.yaml",), "configs/sweep.yaml:1:11", ['"softmax"']),
        ((CONFIG, "--profile", "wied"), "--profile wied", ['"wide"']),
        ((CONFIG, "--only", "mien,mine[warps=3]"), "--only mien,mine[warps=3]", ['"mine"', "list it under providers"]),
    ],
)
def test_a_name_that_is_missing_is_named_with_a_near_one(
    arguments: tuple[object, ...], place: str, words: list[str], kbench: Kbench, write: Write
) -> None:
    write("configs/sweep.yaml", "operator: softmaks\nsweep: {M: 1, N: 2}\nproviders: [torch-native]\n")
    line = line_at(place, kbench("run", *arguments, "--dry-run"))
    assert all(word in line for word in words)


def test_a_size_that_a_tensor_cannot_have_is_refused_with_the_place_and_the_case(kbench: Kbench, write: Write) -> None:
    write("x.yaml", HEAD + "sweep: {M: 1, N: [6, 7, 8]}\n")
    said = line_at("x.yaml:4:22", kbench("run", "x.yaml", "--dry-run"))
    assert "N/2" in said and "M=1 N=7" in said


def test_a_bad_line_of_a_file_of_shapes_is_named_with_line_and_column(kbench: Kbench, write: Write) -> None:
    for line, place, word in (("1,4096,bfloat16,-2", "trace.csv:3:17", "-2"), ("17,4096", "trace.csv:3:1", "4 fields")):
        write("trace.csv", f"M,N,dtype,weight\n1,4096,bfloat16,9200\n{line}\n")
        assert word in line_at(place, kbench("run", CONFIG, "--dry-run", "--shapes", "trace.csv"))
    write("trace.csv", "M;N;weight\n1;4096;1,5\n")  # as a spreadsheet saves it in many countries
    assert "commas" in line_at("trace.csv:1:1", kbench("run", CONFIG, "--dry-run", "--shapes", "trace.csv"))


def test_a_plug_in_or_a_file_of_shapes_that_cannot_be_read_is_named(kbench: Kbench, write: Write) -> None:
    for name, text in {"notes.txt": "", "broken.py": "def kernel(:", "empty.py": ""}.items():
        write(name, text)
    write("x.yaml", "operator: a\nplugins: [gone.py, notes.txt]\nsweep: {M: 1}\nproviders: [b]\n")
    ended = kbench("run", "x.yaml", "--dry-run")
    assert "gone.py" in line_at("x.yaml:2:11", ended) and "notes.txt" in line_at("x.yaml:2:20", ended)
    line_at("nope.csv", kbench("run", CONFIG, "--dry-run", "--shapes", "nope.csv"))
    for command in (("run", "softmax", "--dry-run"), ("list",)):
        for plugin, word in (("gone.py", "no such file"), ("broken.py", "broken.py:1: SyntaxError")):
            assert word in line_at(f"--plugin {plugin}", kbench(*command, "--plugin", plugin))
    assert "empty.py: registers no provider of shift" in kbench("run", CONFIG, "--dry-run", "--plugin", "empty.py").err


def test_the_place_and_the_error_of_each_plug_in_that_cannot_be_imported_are_named(made_once: MadeOnce) -> None:
    files = {
        "syntax.py": "import kbench\n\ndef kernel(:\n",
        "missing.py": "import a_package_that_nobody_has\n",
        "raising.py": "x = 1\n\nraise RuntimeError('no license')\n",
        "ending.py": "import sys\nsys.exit(3)\n",
        "x.yaml": "operator: shift\nplugins:\n  - syntax.py\n  - missing.py\n  - raising.py\n  - ending.py\n"
        "sweep: {M: 1}\nproviders: [torch]\n",
    }
    ended = kept(folder_of(made_once, "plugins", files, "run", "x.yaml", "--dry-run"))
    for place, words in {
        "x.yaml:3:5": ("syntax.py:3", "SyntaxError"),
        "x.yaml:4:5": ("missing.py:1", "a_package_that_nobody_has"),
        "x.yaml:5:5": ("raising.py:3", "no license"),
        "x.yaml:6:5": ("ending.py:2", "SystemExit"),
    }.items():
        said = line_at(place, ended)
        assert all(word in said for word in words), said
