"""Configs: what they expand to, what is refused, and that every refusal says where and what to do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_executor import machine_info

from kbench.config import load as configs
from kbench.config.load import Config
from kbench.config.resolve import Sweep
from kbench.config.schema import File, Measure, keys
from kbench.config.schema import schema as config_schema
from kbench.config.validation import validate
from kbench.config.yaml_source import MAX_BYTES, parse
from kbench.contract.layout import Layout
from kbench.errors import ConfigError
from kbench.protocol import Catalog, Configuration, DeviceInfo, OperatorInfo, PluginError, ProviderInfo

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))


def entry(axes: list[str], choices: dict[str, tuple[str, ...]], providers: dict[str, list[str]]) -> OperatorInfo:
    described = {name: ProviderInfo(name, dict.fromkeys(parameters)) for name, parameters in providers.items()}
    matrix = {"t": Layout(tuple(axes))}
    dtypes = ("float32", "float16", "bfloat16")
    return OperatorInfo(tuple(axes), choices, dtypes, (), described, inputs=matrix, outputs=matrix)


def catalog(device: str = "cuda", failures: tuple[PluginError, ...] = ()) -> Catalog:
    softmax = {"triton": [], "torch-native": [], "cuda": ["threads"], "triton-row": ["num_warps", "num_stages"]}
    operators = {
        "softmax": entry(["M", "N"], {}, softmax),
        "gelu": entry(["M", "N"], {"approximate": ("tanh", "none")}, {"triton": [], "torch-native": []}),
    }
    return Catalog(DeviceInfo(device, "a device"), (), operators, failures, machine_info())


BROKEN = PluginError("mine (my.kernels)", "my.py:3", "NameError: name 'x' is not defined")
"""The plug-in of an installed package."""

SOFTMAX = """\
operator: softmax
sweep:
  M: 4096
  N: {start: 256, stop: 12672, step: 128}
  dtype: float32
providers:
  - triton
  - torch-native
  - triton-row: {num_warps: [4, 8, 16]}
baseline: torch-native
measure: {timer: do_bench, cache: cold, warmup_ms: 10, rep_ms: 20}
profiles:
  cpu: {sweep: {M: 256, N: [256, 1024]}}
  quick: {measure: {rounds: 2, rep_ms: 5}}
"""


@pytest.fixture(autouse=True)
def in_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(text: str | bytes, **options: Any) -> Config:
    path = Path("x.yaml")
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return configs.load_config(path, **options)


def resolve(text: str | bytes, device: str = "cuda", failures: tuple[PluginError, ...] = (), **options: Any) -> Sweep:
    return load(text, **options).resolve(catalog(device, failures))


def errors(text: str | bytes, **options: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        resolve(text, **options)
    return str(caught.value).split("\n")


def sizes(sweep: Sweep, axis: str = "N") -> list[Any]:
    return [case.axes[axis] for case in sweep.cases]


def names(sweep: Sweep) -> list[str]:
    return [configuration.name for configuration in sweep.configurations]


def minimal(sweep: str = "{M: 1, N: 2}", providers: str = "[triton]", rest: str = "", operator: str = "softmax") -> str:
    return f"operator: {operator}\nsweep: {sweep}\nproviders: {providers}\n{rest}"


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


# Profiles, --set, --only, --plugin.


def test_cpu_applies_by_itself_where_there_is_no_accelerator() -> None:
    sweep = resolve(SOFTMAX, "cpu")
    assert [(case.M, case.N) for case in sweep.cases] == [(256, 256), (256, 1024)]
    assert (sweep.profile, sweep.profile_automatic) == ("cpu", True)


@pytest.mark.parametrize(("profile", "cases"), [("cpu", 2), ("quick", 98), ("none", 98)])
def test_a_profile_that_was_asked_for_is_not_automatic(profile: str, cases: int) -> None:
    sweep = resolve(SOFTMAX, "cpu", profile=profile)
    assert len(sweep.cases) == cases
    assert (sweep.profile, sweep.profile_automatic) == (None if profile == "none" else profile, False)


def test_a_profile_named_cpu_is_not_needed() -> None:
    assert resolve(minimal(), "cpu").profile is None


def test_measure_merges_key_by_key() -> None:
    measure = resolve(SOFTMAX, profile="quick").measure
    assert (measure.rounds, measure.rep_ms, measure.warmup_ms) == (2, 5, 10)


def test_a_mapping_under_sweep_is_laid_over_each_mapping_and_a_list_replaces_them() -> None:
    profiles = "profiles: {a: {sweep: {N: 5}}, b: {sweep: [{M: 7, N: 8}]}}"
    base = minimal("[{M: 1, N: 2}, {M: 3, N: {pow2: [2, 4]}}]", rest=profiles)
    assert [(c.M, c.N) for c in resolve(base, profile="a").cases] == [(1, 5), (3, 5)]
    assert [(c.M, c.N) for c in resolve(base, profile="b").cases] == [(7, 8)]


def test_a_range_is_replaced_and_not_merged() -> None:
    base = minimal("{M: 1, N: {pow2: [2, 4]}}", rest="profiles: {a: {sweep: {N: {start: 1, stop: 2, step: 1}}}}")
    assert sizes(resolve(base, profile="a")) == [1, 2]


def test_providers_and_baseline_of_a_profile_replace_those_of_the_file() -> None:
    sweep = resolve(minimal(rest="profiles: {a: {providers: [cuda, triton], baseline: cuda}}"), profile="a")
    assert (names(sweep), sweep.baseline) == (["cuda", "triton"], "cuda")


@pytest.mark.parametrize(
    ("argument", "expected"),
    [("N=1024,4096", [1024, 4096]), ("N=7", [7]), ("N=[7, 8]", [7, 8]), ("N={pow2: [8, 10]}", [256, 512, 1024]),
     (" sweep.N = 3 ", [3]), ("N={start: 1, stop: 3, step: 2}", [1, 3])],
)  # fmt: skip
def test_set_an_axis(argument: str, expected: list[int]) -> None:
    assert sizes(resolve(SOFTMAX, sets=[argument])) == expected


def test_set_reaches_every_mapping_of_the_sweep() -> None:
    sweep = resolve(minimal("[{M: 1, N: 2}, {M: 3, N: 4}]"), sets=["N=9", "dtype=bf16"])
    assert [(c.M, c.N, c.dtype) for c in sweep.cases] == [(1, 9, "bfloat16"), (3, 9, "bfloat16")]


def test_set_wins_over_the_profile_and_the_last_set_over_earlier_ones() -> None:
    sweep = resolve(SOFTMAX, profile="quick", sets=["rounds=7", "measure.rep_ms=0.5", "rounds=8", "cache=warm"])
    assert (sweep.measure.rounds, sweep.measure.rep_ms, sweep.measure.cache) == (8, 0.5, "warm")


@pytest.mark.parametrize("written", ["0.5%", "0.5 %", 0.005, "'0.5%'"])
def test_a_precision_makes_rounds_short(written: object) -> None:
    fixed, precise = resolve(minimal()).measure, resolve(minimal(rest=f"measure: {{precision: {written}}}")).measure
    assert (fixed.precision, fixed.rep_ms, fixed.rounds) == (None, 100, 5)
    assert (precise.precision, precise.rep_ms, precise.rounds) == (pytest.approx(0.005), 8, 5)


def test_a_precision_may_come_from_a_profile_or_the_command_line() -> None:
    config = minimal(rest="measure: {rep_ms: 20}\nprofiles: {precise: {measure: {precision: 1%, max_ms: 50}}}")
    measure = resolve(config, profile="precise").measure
    assert (measure.precision, measure.max_ms, measure.rep_ms) == (0.01, 50, 20)
    measure = resolve(minimal(), sets=["measure.precision=1%"]).measure
    assert (measure.precision, measure.rep_ms) == (0.01, 8)
    assert resolve(config, profile="precise", sets=["precision=0.002"]).measure.precision == 0.002
    assert resolve(config, profile="precise", sets=["precision=null"]).measure.precision is None


def test_set_a_choice_and_a_baseline() -> None:
    sweep = resolve(
        minimal(operator="gelu", providers="[triton, torch-native]"),
        sets=["approximate=none,tanh", "baseline=torch-native"],
    )
    assert (sizes(sweep, "approximate"), sweep.baseline) == (["none", "tanh"], "torch-native")
    text = minimal(providers="[triton, triton-row: {num_warps: 4, num_stages: [1, 2]}]")
    configuration = "triton-row[num_warps=4,num_stages=2]"
    assert resolve(text, sets=[f"baseline={configuration}"]).baseline == configuration


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        (["triton"], ["triton"]),
        (["triton,", " , cuda"], ["triton", "cuda"]),  # an empty word is none
        (["torch-native,triton"], ["triton", "torch-native"]),  # in the order of the file
        (["torch-native", "triton"], ["triton", "torch-native"]),
        (["triton-row"], [f"triton-row[num_warps={w},num_stages=1]" for w in (4, 8)]),
        (["triton, triton-row[num_warps=8,num_stages=1]"], ["triton", "triton-row[num_warps=8,num_stages=1]"]),
    ],
)
def test_only_keeps_providers_and_configurations(only: list[str], expected: list[str]) -> None:
    providers = "[triton, torch-native, triton-row: {num_warps: [4, 8], num_stages: 1}]"
    assert names(resolve(minimal(providers=providers), only=only)) == expected


def test_a_baseline_that_only_leaves_out_is_no_baseline() -> None:
    assert resolve(SOFTMAX, only=["triton"]).baseline is None
    assert resolve(SOFTMAX, only=["triton,torch-native"]).baseline == "torch-native"


def test_plugins_of_the_file_are_relative_to_it_and_those_of_the_command_line_to_here() -> None:
    folder = Path("sub")
    folder.mkdir()
    for file in (folder / "a.py", Path("b.py")):
        file.touch()
    (folder / "x.yaml").write_text(minimal(rest="plugins: [a.py, ./a.py]"))
    config = configs.load_config(folder / "x.yaml", plugins=["b.py", "sub/a.py"])
    assert config.plugins == (str(Path("sub/a.py").resolve()), str(Path("b.py").resolve()))
    assert config.resolve(catalog()).plugins == config.plugins


def test_a_broken_installed_plugin_costs_its_own_configurations_only() -> None:
    text = minimal(providers="[triton, mine: {block: [1, 2]}]")
    sweep = resolve(text, failures=(BROKEN,))
    assert names(sweep) == ["triton", "mine[block=1]", "mine[block=2]"]
    assert sweep.configurations[0].error is None
    assert (
        sweep.configurations[1].error == "plug-in mine (my.kernels) failed: my.py:3: NameError: name 'x' is not defined"
    )
    assert names(resolve(minimal(), failures=(BROKEN,))) == ["triton"]
    assert errors(text) == ['x.yaml:3:21: unknown provider "mine"; choose from triton, torch-native, cuda, triton-row']
    [line] = errors(minimal(), failures=(BROKEN,), only=["mine"])
    assert line.startswith('--only mine: unknown provider "mine"; ') and "my.py:3: NameError" in line


@pytest.mark.parametrize("only", [[], ["mine"]])
def test_a_plugin_that_was_asked_for_has_to_import(only: list[str]) -> None:
    """Whether or not a provider of it is missed: one that fails half way has registered the others."""
    for name in ("a.py", "b.py"):
        Path(name).touch()
    failures = tuple(replace(BROKEN, plugin=str(Path(name).resolve())) for name in ("a.py", "b.py"))
    assert errors(minimal(rest="plugins: [a.py]"), failures=failures, plugins=["b.py"], only=only) == [
        "--plugin b.py: the plug-in failed: my.py:3: NameError: name 'x' is not defined",
        "x.yaml:4:11: the plug-in failed: my.py:3: NameError: name 'x' is not defined",
    ]


# Mistakes: the whole line that the user sees.

ROWS = "triton-row[num_warps=4], triton-row[num_warps=8], triton-row[num_warps=16]"
PROVIDER = "providers: expected a provider's name, or one name with its parameters indented below it"
SHARE = "expected a percentage from 0.01% to 50%, or a share: 0.5% or 0.005"
POINTS = "expected an integer, a list of integers, {pow2: [a, b]} or {start, stop, step}"


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("operator: softmax", "operator: softmx", '1:11: unknown operator "softmx"; did you mean "softmax"?'),
        ("operator: softmax", "operater: softmax", '1:1: unknown key "operater"; did you mean "operator"?'),
        ("  M: 4096", "  m: 4096", '3:3: unknown axis "m"; did you mean "M"?'),
        ("  M: 4096", "  M: 4096\n  K: 3", '4:3: unknown axis "K"; choose from M, N, dtype'),
        ("  M: 4096\n", "", "3:3: sweep: no values for M; give sizes, for example M: [1024, 4096]"),
        ("M: 4096", "M: abc", f'3:6: M: {POINTS}; got "abc"'),
        ("M: 4096", "M: true", f"3:6: M: {POINTS}; got true"),
        ("M: 4096", "M:", f"3:5: M: {POINTS}; got nothing"),
        ("M: 4096", "M: 1.5", f"3:6: M: {POINTS}; got 1.5"),
        ("M: 4096", "M: 0100", f'3:6: M: {POINTS}; got "0100"'),
        ("M: 4096", 'M: "4096"', f'3:6: M: {POINTS}; got "4096"'),
        ("M: 4096", "M: {pow: [3, 4]}", f'3:6: M: {POINTS}; got {{"pow": [3, 4]}}'),
        ("M: 4096", "M: -1", "3:6: M: expected at least 0; got -1"),
        ("M: 4096", "M: []", "3:6: M: expected 1 or more elements; got []"),
        ("M: 4096", "M: [1, two]", '3:10: M: expected an integer; got "two"'),
        ("M: 4096", "M: [1, true]", "3:10: M: expected an integer; got true"),
        ("M: 4096", "M: {pow2: [9, 3]}", '3:6: M: expected the smaller exponent first; got {"pow2": [9, 3]}'),
        (
            "M: 4096",
            "M: {pow2: [3, 4], start: 1}",
            '3:6: M: expected either pow2, or start, stop and step; got {"pow2": [3, 4], "start": 1}',
        ),
        ("M: 4096", "M: {pow2: [9]}", "3:13: pow2: expected 2 or more elements; got [9]"),
        ("M: 4096", "M: {pow2: [9, 63]}", "3:17: pow2: expected at most 62; got 63"),
        ("step: 128", "step: 0", "4:38: step: expected more than 0; got 0"),
        ("step: 128", "stp: 128", '4:32: unknown key "stp"; did you mean "step"?'),
        (", step: 128", "", '4:6: missing key "step"'),
        ("stop: 12672", "stop: 128",
         '4:6: N: expected a stop that is not below start; got {"start": 256, "stop": 128, "step": 128}'),
        ("M: 4096", "M: {start: 1, stop: 50000000, step: 1}", "3:3: sweep: 4,900,000,000 cases; the limit is 1,000,000"),
        ("M: 4096", "M: {start: 0, stop: 4611686018427387904, step: 1}",
         "3:3: sweep: 451,945,229,805,884,014,690 cases; the limit is 1,000,000"),
        ("dtype: float32", "dtype: fp31", '5:10: unknown dtype "fp31"; did you mean "fp32"?'),
        ("dtype: float32", "dtype: [bf16, int8]",
         '5:17: unknown dtype "int8"; choose from float32, float16, bfloat16, fp32, f32, float, fp16, f16, half, bf16'),
        ("dtype: float32", "dtype: 32", "5:10: dtype: expected a word; got 32"),
        ("- triton\n", "- tritn\n", '7:5: unknown provider "tritn"; did you mean "triton"?'),
        ("- triton\n", "- TRITON\n", '7:5: unknown provider "TRITON"; did you mean "triton"?'),
        ("- triton\n", "- triton: {x: 1}\n", '7:14: triton takes no parameters; remove "x"'),
        ("- triton\n", "- triton:\n", "7:12: triton: expected a mapping; got nothing"),
        ("- triton\n", "- torch-native\n", '8:5: duplicate configuration "torch-native"'),
        ("- triton\n", "- 3\n", f"7:5: {PROVIDER}; got 3"),
        ("- triton\n", "- cuda:\n    threads: 4\n", f'7:5: {PROVIDER}; got {{"cuda": null, "threads": 4}}'),
        ("num_warps", "num_warp", '9:18: unknown triton-row parameter "num_warp"; did you mean "num_warps"?'),
        ("[4, 8, 16]", "[]", "9:29: num_warps: expected a value or a list of values; got []"),
        ("[4, 8, 16]", "[4, [8]]", "9:29: num_warps: expected a value or a list of values; got [4, [8]]"),
        ("[4, 8, 16]", "[4, 4]", '9:5: duplicate configuration "triton-row[num_warps=4]"'),
        ("baseline: torch-native", "baseline: cuda",
         f'10:11: unknown baseline "cuda"; choose from triton, torch-native, triton-row, {ROWS}'),
        ("baseline: torch-native", "baseline: triton-row",
         f'10:11: baseline "triton-row" has 3 configurations; name one: {ROWS}'),
        ("do_bench", "do_bnch", '11:18: unknown timer "do_bnch"; did you mean "do_bench"?'),
        ("cache: cold", "cache: hot", '11:35: unknown cache "hot"; choose from cold, warm'),
        ("cache: cold", "stages: 1", "11:36: stages: expected true or false; got 1"),
        ("cache: cold", "cach: cold", '11:28: unknown key "cach"; did you mean "cache"?'),
        ("warmup_ms: 10", "warmup_ms: soon", '11:52: warmup_ms: expected a number; got "soon"'),
        ("warmup_ms: 10", "warmup_ms: true", "11:52: warmup_ms: expected a number; got true"),
        ("warmup_ms: 10", "warmup_ms: 1e999", "11:52: warmup_ms: expected a finite number; got Infinity"),
        ("warmup_ms: 10", "precision: 5", f"11:52: precision: {SHARE}; got 5"),
        ("warmup_ms: 10", "precision: 60%", f'11:52: precision: {SHARE}; got "60%"'),
        ("warmup_ms: 10", "precision: 0.5 ms", f'11:52: precision: {SHARE}; got "0.5 ms"'),
        ("warmup_ms: 10", "precision: true", f"11:52: precision: {SHARE}; got true"),
        ("warmup_ms: 10", "precision: [1%]", f'11:52: precision: {SHARE}; got ["1%"]'),
        ("warmup_ms: 10", "max_ms: 0", "11:49: max_ms: expected more than 0.0; got 0"),
        ("warmup_ms: 10", "max_ms: 10",
         "11:41: max_ms limits the rounds that are added for `precision`; either also set `precision`, or leave out max_ms"),
        ("rounds: 2", "rounds: 2.5", "14:29: rounds: expected an integer; got 2.5"),
        ("rounds: 2", "rounds: 0", "14:29: rounds: expected at least 1; got 0"),
        ("quick: {measure", "quick: {mesure", '14:11: unknown key "mesure"; did you mean "measure"?'),
        ("M: 256", "M: {pow2: 8}", "13:27: pow2: expected a list; got 8"),
        ("  quick:", "  none:", '14:3: a profile cannot have the name `none`, '
         'because `--profile none` means no profile; rename it'),
        ("  M: 4096", "  M: 4096\n  M: 4096", '4:3: duplicate key "M"'),
        ("M: 4096", "M: off", '3:6: "off" is ambiguous in YAML; write true or false, or quote it'),
        ("  M: 4096", "\tM: 4096", "3:1: found a tab; indent YAML with spaces"),
        ("M: 4096", "M: a: 1",
         "3:7: mapping values are not allowed here; check the brackets, quotes and indentation up to here"),
        ("M: 4096", "M: [1, 2", "4:4: while parsing a flow sequence from line 3, expected ',' or ']', but got ':'"),
        ("M: 4096", "M: !!python/object/apply:os.system [ls]",
         "3:6: YAML tag !!python/object/apply:os.system is not allowed; remove it"),
        ("M: 4096", "M: !size 4096", "3:6: YAML tag !size is not allowed; remove it"),
        ("M: 4096", "M: &m [1, *m]", "3:6: this value contains itself through an alias"),
        ("M: 4096", "? [a]\n  : 1", "3:5: a key must be a string"),
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
        (b"operator: s\xe9\n", ":1:12: not UTF-8 text (byte 0xe9); save the file as UTF-8"),
        (minimal().encode("utf-16"), ":1:1: not UTF-8 text (byte 0xff); save the file as UTF-8"),
        ("a: 1\nb: \x00\n", ":2:4: character U+0000 is not allowed; remove it"),
        ("[" * 5000, ": nested too deeply to read"),
        ("#" * (MAX_BYTES + 1), ": is longer than 1 MiB, which is the limit; write long lists as ranges"),
    ],
    ids=["empty", "comment", "word", "list", "documents", "latin-1", "utf-16", "nul", "deep", "big"],
)
def test_files_that_are_no_configs(text: str | bytes, message: str) -> None:
    assert errors(text) == [f"x.yaml{message}"]


@pytest.mark.slow
def test_a_small_file_that_stands_for_a_billion_values() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    [line] = errors("\n".join(lines))
    assert line.endswith("with its aliases written out, the config has more than 100,000 values; use fewer aliases")


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
    for path, message in (("nope.yaml", "no such file or directory"), (".", "is a folder; name a YAML config")):
        with pytest.raises(ConfigError) as caught:
            configs.load_config(path)
        assert str(caught.value).startswith(f"{path}: {message}")


def test_a_python_file_is_not_read_as_yaml(tmp_path: Path) -> None:
    path = tmp_path / "bench.py"
    path.write_text("@perf_report([Benchmark(args={})])")
    with pytest.raises(
        ConfigError, match=r"bench.py: is a Python file, not a YAML config; give a plug-in with --plugin"
    ):
        configs.load_config(path)


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


def test_a_choice_takes_its_own_words_only() -> None:
    for value, got in (("erf", '"erf"'), ("{pow2: [1, 2]}", '{"pow2": [1, 2]}'), ("3", "3")):
        line = f"x.yaml:2:34: approximate: unknown value {got}; choose from tanh, none"
        assert errors(minimal(f"{{M: 1, N: 2, approximate: {value}}}", operator="gelu")) == [line]


def test_an_axis_takes_no_words() -> None:
    assert errors(minimal("{M: 1, N: [a, b]}")) == [
        f'x.yaml:2:{c}: N: expected an integer; got "{w}"' for c, w in ((19, "a"), (22, "b"))
    ]


def test_a_baseline_that_the_profile_removed_is_an_error() -> None:
    text = minimal(rest="baseline: triton\nprofiles: {a: {providers: [cuda, torch-native]}}")
    assert errors(text, profile="a") == ['x.yaml:4:11: unknown baseline "triton"; choose from cuda, torch-native']


def test_too_many_configurations() -> None:
    values = list(range(40))
    line = "x.yaml:3:13: triton-row: 1,600 configurations; the limit is 1,000"
    assert errors(minimal(providers=f"[triton-row: {{num_warps: {values}, num_stages: {values}}}]")) == [line]


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
    assert errors(SOFTMAX, plugins=["no.py"]) == ["--plugin no.py: no such file: no.py; name a Python file"]
    Path("notes.txt").write_text("")
    assert errors(SOFTMAX, plugins=["notes.txt"]) == [
        "--plugin notes.txt: notes.txt is not a Python file; its name must end in .py"
    ]


def test_a_plugin_of_the_file_that_does_not_exist() -> None:
    assert errors(minimal(rest="plugins: [no.py, sub/no.py]")) == [
        "x.yaml:4:11: no such file: no.py; name a Python file",
        "x.yaml:4:18: no such file: sub/no.py; name a Python file",
    ]


def test_nothing_heavy_is_imported() -> None:
    code = "import sys, kbench.config.load; print({'torch', 'pandas', 'numpy', 'matplotlib'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"


# The JSON Schema, and the configs that come with kbench.


def documents() -> list[tuple[str, bool]]:
    """Configs, and whether their structure is right."""
    return [
        (SOFTMAX, True),
        *((path.read_text(), True) for path in CONFIGS),
        (minimal("[{M: 1, N: {pow2: [1, 2]}}]"), True),
        (minimal("{M: 1, N: {pow2: [1]}}"), False),
        (minimal("{M: 1, N: {pow2: [1, 2], step: 1}}"), False),
        (minimal("{M: 1, N: 2, causal: [true, false], eps: [0, 1e-6], mode: full}"), True),
        (minimal("{M: 1, N: []}"), False),
        (minimal("[]"), False),
        (minimal("{M: 1, N: 2, dtype: int3}"), False),
        (minimal(providers="[]"), False),
        (minimal(providers="[3]"), False),
        (minimal(providers="[{triton: {}, cuda: {}}]"), False),
        (minimal(providers="[{triton: {a: []}}]"), False),
        (minimal(providers="[{triton: {a: [1, null, true, b, 2.5]}}]"), True),
        (minimal(rest="measure: {rounds: 0}"), False),
        (minimal(rest="measure: {cache: hot}"), False),
        (minimal(rest="mesure: {}"), False),
        (minimal(rest="profiles: {a: {operator: softmax}}"), False),
        (minimal(rest="profiles: {a: {measure: {rounds: 1}}}"), True),
        ("operator: softmax\n", False),
    ]


@pytest.mark.parametrize(("text", "right"), documents())
def test_the_schema_judges_structure_as_kbench_does(text: str, right: bool) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    document = parse(text, "x.yaml")
    validator = jsonschema.Draft202012Validator(config_schema())
    validator.check_schema(config_schema())
    assert validator.is_valid(document.plain) == right
    if "int3" not in text:  # kbench asks the catalog which dtypes there are
        assert (validate(File, document, keys) == []) == right


def test_the_schema_documents_every_key_of_measure_and_refuses_unknown_ones() -> None:
    schema = config_schema()
    measure = schema["$defs"]["Measure"]
    assert all("description" in field for field in measure["properties"].values())
    assert not schema["additionalProperties"] and not measure["additionalProperties"]
    assert set(schema["properties"]) == {"operator", "sweep", "providers", "baseline", "measure", "plugins", "profiles"}


@pytest.fixture(scope="module")
def shipped() -> Callable[[str], Catalog]:
    """The catalog of what comes with kbench, as seen from a machine with some device."""
    from kbench import registry
    from kbench.contract import origin
    from kbench.measure.catalog import describe_operator

    operators = {}
    for name in origin.shipped():
        one = registry.operator(name)
        providers = {p.name: ProviderInfo(p.label, p.parameters) for p in one.providers.values()}
        operators[name] = replace(describe_operator(one), providers=providers)
    return lambda device: Catalog(DeviceInfo(device, ""), (), operators, (), machine_info())


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_committed_config_resolves(path: Path, device: str, shipped: Callable[[str], Catalog]) -> None:
    profiles = configs.load_config(path).document.section("profiles")
    for profile in (None, "none", *profiles):
        sweep = configs.load_config(path, profile=profile).resolve(shipped(device))
        assert sweep.cases and sweep.baseline
        assert max(sweep.info.needed_bytes(case) for case in sweep.cases) <= 60e9  # of an 80 GB device
        if sweep.profile == "cpu":
            assert sum(case.M for case in sweep.cases) <= 1024  # each row is a millisecond to Triton's interpreter


def test_the_committed_configs_are_those_of_the_readme() -> None:
    assert {path.stem for path in CONFIGS} >= {
        "softmax", "softmax-ladder", "softmax-persistent", "softmax-warps", "softmax-large", "gelu",
    }  # fmt: skip


def test_softmax_yaml_is_the_published_sweep(shipped: Callable[[str], Catalog]) -> None:
    sweep = configs.load_config(ROOT / "configs" / "softmax.yaml").resolve(shipped("cuda"))
    assert [(case.M, case.N) for case in sweep.cases] == [(4096, 128 * i) for i in range(2, 100)]
    assert names(sweep) == ["triton", "torch-native", "torch-jit", "cuda"]
