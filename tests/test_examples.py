"""The examples work: every provider of every example gives right answers, and the workflow is the one that kbench writes."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from common import ROOT
from warm_processes import WarmProcesses

from kbench.commands.init import TEMPLATES
from kbench.config.schema import File

EXAMPLES = ROOT / "examples"
NAMES = ["cross_entropy", "matmul", "rmsnorm"]

PROGRAM = """
import importlib, itertools, json, sys
import torch, yaml
sys.path.insert(0, sys.argv[1])
import kbench
from kbench.measure.correctness.check import accuracy
from kbench.measure.correctness.definition import Definition
from kbench.measure.correctness.inputs import Inputs
from kbench.measure.machine.device import Device

found = []
for name in sys.argv[2:]:
    importlib.import_module(name)
    operator = kbench.operator(f"my_{name}")  # kbench has operators of the same names without my_
    with open(f"{sys.argv[1]}/{name}.yaml") as file:
        profile = yaml.safe_load(file)["profiles"]["cpu"]
    values = [profile["sweep"][axis] for axis in operator.axes]
    for sizes in itertools.product(*(each if isinstance(each, list) else [each] for each in values)):
        case = operator.case("float32", **dict(zip(operator.axes, sizes)))
        drawn = Inputs(Definition(operator, case), Device(), 0).draw("")
        for inputs in [drawn, *(edge(case, *drawn) for edge in operator.edges.values())]:
            for provider in profile["providers"]:
                output = operator.providers[provider].bind(case, {})(*inputs)
                found.append([case.label, provider, accuracy(operator, case, inputs, output).wrong])
print(json.dumps(found))
"""


def config(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    return loaded


def test_every_example_is_tested() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("*.py")) == NAMES
    assert {path.name for path in EXAMPLES.glob("*.yaml")} == {f"{name}.yaml" for name in [*NAMES, "kubernetes"]}


@pytest.mark.parametrize("name", NAMES)
def test_a_config_is_valid_and_names_its_own_plug_in(name: str) -> None:
    loaded = config(name)
    File.model_validate(loaded)
    assert loaded["operator"] == f"my_{name}" and loaded["plugins"] == [f"{name}.py"]
    assert loaded["baseline"] in loaded["providers"] and "cpu" in loaded["profiles"]


@pytest.mark.slow
def test_every_provider_of_an_example_is_right(warm: WarmProcesses) -> None:
    """One process for all examples. Without an accelerator, Triton kernels run in Triton's interpreter."""
    pytest.importorskip("triton")
    done = warm.run(PROGRAM, EXAMPLES, *NAMES)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {provider for _, provider, _ in found} == {"torch-native", "triton"}
    assert [each for each in found if each[2]] == []


def test_the_workflow_is_the_one_that_kbench_init_writes() -> None:
    made = (TEMPLATES / "workflow.yml").read_text().replace("@KBENCH@", '"."')
    assert (EXAMPLES / "ci.yml").read_text() == made.replace("@CONFIG@", '"examples/rmsnorm.yaml"')
