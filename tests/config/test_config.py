"""Configs: what a good one becomes, and what lies over it: profiles, --set, --only and --plugin."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from common import ROOT
from sample_configs import SOFTMAX, minimal, resolve, sizes

from kbench.config import load as configs
from kbench.errors import ConfigError, ConfigIssue, SourceLocation


@pytest.mark.parametrize(
    ("baseline", "expected"),
    [("", "triton"), ("baseline: cuda", "cuda"), ("baseline: triton-row[num_warps=4]", "triton-row[num_warps=4]"),
     ("baseline: triton-row", "triton-row[num_warps=4]")],
)  # fmt: skip
def test_the_baseline_is_a_provider_or_a_configuration_and_by_default_the_first(baseline: str, expected: str) -> None:
    assert resolve(minimal(providers="[triton, cuda, triton-row: {num_warps: 4}]", rest=baseline)).baseline == expected


def test_nothing_heavy_is_imported() -> None:
    code = "import sys, kbench.config.load; print({'torch', 'pandas', 'numpy', 'matplotlib'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"


# Profiles, --set, --only, --plugin.


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


def test_an_error_crosses_from_one_process_to_another_with_its_issues() -> None:
    where = SourceLocation("x.yaml", 3, 1)
    error = ConfigError([ConfigIssue(where, "second"), ConfigIssue(SourceLocation("x.yaml", 2, 5), "first")])
    arrived = pickle.loads(pickle.dumps(error))
    assert str(arrived) == str(error) == "x.yaml:2:5: first\nx.yaml:3:1: second"
    assert arrived.issues == error.issues
