"""The examples work: every provider of every example gives right answers, and the workflow is the one that kbench writes."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
import yaml
from common import ROOT
from measure.in_process import checked_together

from kbench.commands.init import TEMPLATES
from kbench.config.schema import File
from kbench.contract.registry import operator
from kbench.plugins import load_plugins

EXAMPLES = ROOT / "examples"
NAMES = ["add_rmsnorm_cuda", "axpy", "cross_entropy", "dropout", "l2norm", "matmul", "moments", "rmsnorm"]


def config(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    return loaded


def test_every_example_is_tested() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("*.py")) == NAMES
    assert {path.name for path in EXAMPLES.glob("*.yaml")} == {f"{name}.yaml" for name in [*NAMES, "kubernetes"]}
    pages = "".join((ROOT / "docs" / name).read_text() for name in ("extending.md", "cuda.md"))
    assert [name for name in NAMES if f"(../examples/{name}.py)" not in pages] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_config_is_valid_and_names_its_own_plug_in(name: str) -> None:
    loaded = config(name)
    File.model_validate(loaded)
    assert loaded["operator"].removeprefix("my_") == name.removesuffix("_cuda") and loaded["plugins"] == [f"{name}.py"]
    assert loaded["baseline"] in loaded["providers"] and "cpu" in loaded["profiles"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_provider_of_an_example_is_right(name: str, own_operators: None) -> None:
    """On all inputs, with the first and the last value of all that the config sweeps on a host."""
    pytest.importorskip("triton")
    loaded, profile = config(name), config(name)["profiles"]["cpu"]
    whole = loaded["sweep"] if isinstance(loaded["sweep"], dict) else {}
    sweep = {key: value if isinstance(value, list) else [value] for key, value in (whole | profile["sweep"]).items()}
    providers = profile.get("providers", loaded["providers"])
    with mock.patch.dict(operator("add_rmsnorm").providers):
        assert load_plugins([str(EXAMPLES / f"{name}.py")]) == []
        mine = operator(loaded["operator"])
        first, last = ({k: v[-1 if k in mine.axes else pick] for k, v in sweep.items()} for pick in (0, -1))
        for values in (first, last) if first != last else (first,):
            for provider, by_input in checked_together(mine, *providers, **values).items():
                right = ("ok", "checked", "unavailable") if provider.startswith("cuda") else ("ok", "checked")
                assert [words for words in by_input.values() if words.split()[0] not in right] == [], provider


def test_the_workflow_is_the_one_that_kbench_init_writes() -> None:
    made = (TEMPLATES / "workflow.yml").read_text().replace('KBENCH: ""', 'KBENCH: "."')
    assert (EXAMPLES / "ci.yml").read_text() == made.replace("@CONFIG@", '"examples/rmsnorm.yaml"')
