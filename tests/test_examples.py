"""The examples work: every provider of every example gives right answers, and the workflow is the one that kbench writes."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import yaml
from common import ROOT

from kbench.commands.init import TEMPLATES
from kbench.config.schema import File

EXAMPLES = ROOT / "examples"
NAMES = ["add_rmsnorm_cuda", "axpy", "cross_entropy", "dropout", "l2norm", "matmul", "moments", "rmsnorm"]

PROGRAM = """
import importlib, json, sys
import torch, yaml
sys.path.insert(0, sys.argv[1])
import kbench
from kbench.measure.case import CaseRun
from kbench.measure.edge_cases import check_edges
from kbench.measure.machine.device import Device
from kbench.measure.instruments import Instruments
from kbench.protocol import Configuration, Measure, Rows, Task

settings = Measure(cache="warm", warmup_ms=0, rep_ms=1, rounds=1, timeout_s=60, build_timeout_s=60)
found = []

for name in sys.argv[2:]:
    importlib.import_module(name)
    with open(f"{sys.argv[1]}/{name}.yaml") as file:
        config = yaml.safe_load(file)
    operator, profile = kbench.operator(config["operator"]), config["profiles"]["cpu"]
    whole = config["sweep"] if isinstance(config["sweep"], dict) else {}
    sweep = {k: v if isinstance(v, list) else [v] for k, v in (whole | profile["sweep"]).items()}
    sweep |= {axis: sweep[axis][-1:] for axis in operator.axes}
    configurations = [Configuration(provider, {}) for provider in profile.get("providers", config["providers"])]
    for pick in (0, -1):
        case = operator.case(**{name: values[pick] for name, values in sweep.items()})

        def note(event):
            if isinstance(event, Rows):
                [row] = event.rows
                found.append([case.label, row.edge, row.provider, row.status, row.reason])

        check_edges(operator, case, configurations, seed=0, build_timeout_s=60, device=Device(), emit=note)
    task = Task(case, tuple(configurations), configurations[0].name, settings, 0)
    run = CaseRun(operator, task, Instruments(Device()), lambda event: None)
    found += [[case.label, "timed", row.provider, row.status, row.reason] for row in run.run()]
print(json.dumps(found))
"""


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
def test_every_provider_of_an_example_is_right() -> None:
    """One process for all examples, with the first and the last value of all that a config sweeps."""
    pytest.importorskip("triton")
    done = subprocess.run([sys.executable, "-c", PROGRAM, EXAMPLES, *NAMES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    needs_cuda = [each for each in found if each[3] == "unavailable"]
    assert {name for _, _, name, _, _ in needs_cuda} <= {"cuda-row", "cuda-row-in-place", "cuda-row-out"}
    assert [each for each in found if each[3] not in ("ok", "checked") and each not in needs_cuda] == []
    providers = {provider for _, _, provider, _, _ in found}
    assert {"cuda-row", "torch-native", "torch-in-place", "torch-out", "triton"} <= providers
    assert {"forward", "full"} <= {
        word[5:] for label, *_ in found for word in label.split() if word.startswith("mode=")
    }


def test_the_workflow_is_the_one_that_kbench_init_writes() -> None:
    made = (TEMPLATES / "workflow.yml").read_text().replace('KBENCH: ""', 'KBENCH: "."')
    assert (EXAMPLES / "ci.yml").read_text() == made.replace("@CONFIG@", '"examples/rmsnorm.yaml"')
