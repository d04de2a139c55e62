"""Configs: what a good one becomes, and what lies over it: profiles, --set, --only and --plugin."""

from __future__ import annotations

from pathlib import Path

import pytest
from sample_configs import SOFTMAX, minimal, resolve

from kbench.config import load as configs


@pytest.mark.parametrize(
    ("baseline", "expected"),
    [("", "triton"), ("baseline: cuda", "cuda"), ("baseline: triton-row[num_warps=4]", "triton-row[num_warps=4]"),
     ("baseline: triton-row", "triton-row[num_warps=4]")],
)  # fmt: skip
def test_the_baseline_is_a_provider_or_a_configuration_and_by_default_the_first(baseline: str, expected: str) -> None:
    assert resolve(minimal(providers="[triton, cuda, triton-row: {num_warps: 4}]", rest=baseline)).baseline == expected


# Profiles, --set, --only, --plugin.


def test_a_precision_may_come_from_a_profile_or_the_command_line() -> None:
    config = minimal(rest="measure: {rep_ms: 20}\nprofiles: {precise: {measure: {precision: 1%, max_ms: 50}}}")
    measure = resolve(config, profile="precise").measure
    assert (measure.precision, measure.max_ms, measure.rep_ms) == (0.01, 50, 20)
    measure = resolve(minimal(), sets=["measure.precision=1%"]).measure
    assert (measure.precision, measure.rep_ms) == (0.01, 8)
    assert resolve(config, profile="precise", sets=["precision=0.002"]).measure.precision == 0.002
    assert resolve(config, profile="precise", sets=["precision=null"]).measure.precision is None


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
