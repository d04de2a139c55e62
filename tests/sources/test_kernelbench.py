"""Problems of KernelBench: `Model` is the reference and the baseline, and every `ModelNew` a provider."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from common import Kbench

from kbench.contract.operator import registered
from kbench.sources import SourceFault
from kbench.sources.problems.kernelbench import load

QUICK = ("--set", "rounds=1", "--set", "rep_ms=1", "--set", "warmup_ms=1", "--no-plot")

PROBLEM = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.inner = nn.Linear(features, 2 * features)

    def forward(self, x, a):
        return self.inner(x) * a

features = 64

def get_inputs():
    return [torch.randn(6, features), 3.0]

def get_init_inputs():
    return [features]
"""

pytestmark = pytest.mark.usefixtures("no_operators")


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def test_one_file_may_hold_the_problem_and_its_solution(tmp_path: Path) -> None:
    load(write(tmp_path / "problem", both=f"{PROBLEM}\nclass ModelNew(Model): pass\n") / "both.py")
    assert list(registered["both"].providers) == ["reference", "ModelNew"]


FAULTS = {
    "no inputs": (PROBLEM.replace("def get_inputs", "def inputs"), "mlp.py: `get_inputs` is not defined"),
    "code that exits": (
        PROBLEM.replace("features = 64", "raise SystemExit(5)"),
        "mlp.py:13: the code raised SystemExit: 5",
    ),
    "a model that raises": (
        PROBLEM.replace("self.inner(x)", "self.lost(x)"),
        "mlp.py:11: the model raised AttributeError",
    ),
    "an output that is no tensor": (PROBLEM.replace("return self", "return 1, self"), "forward returns int"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_malformed_problem_is_one_located_fault(tmp_path: Path, name: str) -> None:
    text, expected = FAULTS[name]
    with pytest.raises(SourceFault) as raised:
        load(write(tmp_path / "problem", mlp=text))
    assert expected in str(raised.value)
    assert str(tmp_path) in raised.value.where


@pytest.mark.gpu
def test_float32_convolutions_are_exact_enough_on_a_gpu(kbench: Kbench, tmp_path: Path) -> None:
    """torch would compute them in TF32."""
    convolution = PROBLEM.replace("nn.Linear(features, 2 * features)", "nn.Conv2d(features, 2 * features, 3)")
    (tmp_path / "convolution.py").write_text(convolution.replace("6, features", "2, features, 16, 16"))
    done = kbench("run", "convolution.py", *QUICK)
    rows = pd.read_csv(tmp_path / "results/convolution.csv").query("role == 'provider'")
    assert list(rows.status) == ["ok"], done.stdout
