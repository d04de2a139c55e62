"""`kbench judge` as a reviewer uses it: one verdict, one exit code, JSON with a schema."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from common import Kbench

from kbench.commands.judge import judge
from kbench.errors import ExitStatus
from kbench.judging.answer import JudgeAnswer

KERNEL = """
import torch
import kbench

provider = kbench.operator("rmsnorm").provider

def right(x, weight, eps):
    mean = (x.float() * x.float()).mean(-1, keepdim=True)
    return (x.float() / torch.sqrt(mean + eps) * weight.float()).to(x.dtype)
"""


def kernel(folder: Path, body: str) -> str:
    (folder / "mine.py").write_text(f"{KERNEL}\n{body}\n")
    return "mine.py"


def test_ctrl_c_says_what_became_of_the_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def interrupted(*arguments: object) -> JudgeAnswer:
        raise KeyboardInterrupt

    file = tmp_path / "mine.py"
    file.touch()
    monkeypatch.setattr("kbench.judging.judge.judge", interrupted)
    assert judge(file, "rmsnorm") == ExitStatus.INTERRUPTED
    assert "interrupted; kbench judge gives its verdict at the end, so there is none" in capsys.readouterr().err


@pytest.mark.slow
def test_a_baseline_that_was_asked_for_and_cannot_run_is_named(kbench: Kbench, tmp_path: Path) -> None:
    body = (
        "@provider('mine')\ndef mine(x, weight, *, eps):\n    return right(x, weight, eps)\n"
        "@kbench.operator('gelu').provider('other', requires='nowhere')\ndef other(x):\n    return x\n"
    )
    config = (
        "operator: rmsnorm\nplugins: [others.py]\nsweep: {M: 8, N: 64}\n"
        "providers: [torch-native, {absent: {a: 1, b: 2}}]\n"
    )
    (tmp_path / "set.yaml").write_text(config)
    absent = "@provider('absent', requires='nowhere')\ndef absent(x, weight, *, eps, a, b):\n    return x\n"
    (tmp_path / "others.py").write_text(f"{KERNEL}\n{absent}")
    options = ["--against", "set.yaml", "--set", "rounds=2", "--set", "rep_ms=1", "--shapes", "1", "--min-speedup", "0"]
    gated = kbench("judge", kernel(tmp_path, body), *options, "--baseline", "torch-native,absent[a=1,b=2]")
    said = "not compared with absent[a=1,b=2], which cannot run here: Python package 'nowhere' is not installed"
    assert gated.returncode == 3 and said in gated.stdout, gated.stdout + gated.stderr
    assert "not shown to be fast enough: --min-speedup needs the comparison with absent[a=1,b=2]" in gated.stdout
    by_default = kbench("judge", "mine.py", *options)
    assert by_default.returncode == 0 and "not compared with" not in by_default.stdout


FIRST = """
import torch
import kbench

first = kbench.Operator(
    "first",
    axes=("N", "k"),
    inputs={"x": kbench.Tensor("N")},
    outputs={"y": kbench.Tensor("k")},
    reference=lambda x, *, k: x.topk(k)[0],
)
first.provider("sort", factory=True)(lambda case: lambda x: x.sort(descending=True)[0][:case.k].clone())
first.provider("topk", factory=True)(lambda case: lambda x: x.topk(case.k)[0])
"""


def test_sizes_that_the_reference_refuses_only_together_are_no_fault_of_a_provider(
    kbench: Kbench, tmp_path: Path
) -> None:
    """With k above N there is no answer, also where both are large."""
    (tmp_path / "first.py").write_text(FIRST)
    (tmp_path / "first.yaml").write_text(
        "{operator: first, sweep: {N: 64, k: 4}, providers: [sort, topk], measure: {rounds: 2, rep_ms: 1}}"
    )
    done = kbench("judge", "first.py", "--against", "first.yaml", "--shapes", "30", "--json")
    for provider in json.loads(done.stdout)["providers"]:
        assert provider["correct"] and not provider["failures"]
    left_out = [line for line in done.stderr.splitlines() if line.startswith("left out first N=")]
    assert left_out and json.loads(done.stdout)["random_shapes"] + len(left_out) == 30
