"""Configs that come with kbench are found by name, in a checkout and in a wheel."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from common import ROOT, Kbench
from fake_executor import machine_info

from kbench import registry
from kbench.config import builtin
from kbench.config.load import load_config
from kbench.contract.origin import shipped
from kbench.errors import ConfigError
from kbench.measure.catalog import describe_operator
from kbench.protocol import Catalog, DeviceInfo, ProviderInfo

TITLE_LIMIT = 100
"""Characters of a config's first line: `kbench list` prints it in a row of a table."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", builtin.config_names())
def test_every_built_in_config_loads_by_its_name_and_says_what_it_is_for(here: Path, name: str) -> None:
    assert load_config(name).document.entries["operator"].value in shipped()
    [title] = [config.about for config in builtin.described() if config.name == name]
    assert 20 < len(title) < TITLE_LIMIT and not title.startswith("#")


def test_a_file_here_wins_over_the_built_in_config(here: Path) -> None:
    mine = "{operator: softmax, sweep: {M: 7, N: 7, dtype: float32}, providers: [triton]}"
    assert load_config("softmax").path == ROOT / "configs" / "softmax.yaml"
    Path("softmax.yaml").write_text(mine)
    assert load_config("softmax").text == load_config("softmax.yaml").text == mine
    Path("softmax").write_text("{operator: gelu, sweep: {M: 7, N: 7, dtype: float32}, providers: [triton]}")
    assert load_config("softmax").document.entries["operator"].value == "gelu"


def test_a_folder_of_that_name_does_not_hide_the_built_in_config(here: Path) -> None:
    Path("softmax").mkdir()
    assert load_config("softmax").path.name == "softmax.yaml"
    Path("bench").mkdir()
    with pytest.raises(ConfigError, match=r"^bench: is a folder"):
        load_config("bench")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("sofmax", 'sofmax: no such file or directory; did you mean "softmax"?'),
        ("SOFTMAX", 'SOFTMAX: no such file or directory; did you mean "softmax"?'),
        ("sofmax.yaml", 'sofmax.yaml: no such file or directory; did you mean "softmax"?'),
        ("bench/mne.yaml", 'bench/mne.yaml: no such file or directory; did you mean "bench/mine.yaml"?'),
        (
            "configs/gelu.yaml",
            "configs/gelu.yaml: no such file or directory; a config of this name is built in; to use it, write gelu without "
            "a folder",
        ),
        ("nothing-like-it", "nothing-like-it: no such file or directory; built-in configs are add_rmsnorm, "),
        ("no/such/folder.yaml", "no/such/folder.yaml: no such file or directory; built-in configs are add_rmsnorm, "),
    ],
)
def test_an_unknown_name_suggests_a_near_one(here: Path, given: str, message: str) -> None:
    Path("bench").mkdir()
    Path("bench/mine.yaml").write_text("")
    with pytest.raises(ConfigError) as raised:
        load_config(given)
    assert message in str(raised.value)


def test_the_help_names_the_built_in_configs(kbench: Kbench) -> None:
    text = "".join(kbench("run", "--help").stdout.replace("│", " ").split())  # a line may end within a name
    assert all(f"{name}," in text for name in builtin.config_names()[:-1])
    assert "Start with: kbench run softmax" in kbench("--help").stdout


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        *((name, {4096, 7168, 3584, 2880}) for name in ("rmsnorm", "add_rmsnorm", "layernorm")),
        *((name, {128256, 151936, 129280, 256000, 201088}) for name in ("cross_entropy", "softmax")),
        *((name, {14336, 12288, 18432, 2048, 2880}) for name in ("swiglu", "gelu")),
    ],
)
def test_the_row_operators_have_a_profile_with_the_shapes_of_models(here: Path, name: str, sizes: set[int]) -> None:
    operator = registry.operator(name)
    providers = {each: ProviderInfo(parameters=found.parameters) for each, found in operator.providers.items()}
    described = {name: replace(describe_operator(operator), providers=providers)}
    catalog = Catalog(DeviceInfo("cuda", ""), (), described, (), machine_info())
    found = load_config(name, profile="models").resolve(catalog)
    assert {case.axes[operator.axes[1]] for case in found.cases} == sizes
    assert {case.dtype for case in found.cases} == {"bfloat16"}
    assert all(case.key in found.models for case in found.cases)
