"""tools/kernels_sanitize.py judges kernels at shapes for every regime, here those of torch on the CPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from common import ROOT

TOOL = [sys.executable, str(ROOT / "tools/kernels_sanitize.py")]


@pytest.mark.slow
def test_every_operator_is_judged_and_counted(tmp_path: Path) -> None:
    options = ["bfloat16", "--providers", "torch-native", "--lengths", "64", "--rows", "5"]
    done = subprocess.run([*TOOL, *options], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    for operator in ("softmax", "gelu", "cross_entropy"):
        assert f"{operator} torch-native forward: 1 right" in done.stdout
    for operator in ("rmsnorm", "layernorm", "add_rmsnorm"):
        assert f"{operator} torch-native forward: 2 right" in done.stdout, "weights of the dtype, and of float32"
    assert done.stdout.endswith("9 right, 0 wrong\n")


@pytest.mark.slow
def test_shapes_left_out_are_counted(tmp_path: Path) -> None:
    options = ["float32", "--only", "gelu", "--providers", "torch-native", "--limit-s", "0"]
    done = subprocess.run([*TOOL, *options], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert "the time is over: 41 of 41 shapes are left" in done.stdout


PLANTED = """
import runpy, sys
import kbench
kbench.operator("gelu").provider("planted")(lambda x: x * 0.5)
sys.argv = ["kernels_sanitize.py", "float32", "--only", "gelu", "--providers", "planted", "--lengths", "64", "--rows", "5"]
runpy.run_path({tool!r}, run_name="__main__")
"""


@pytest.mark.slow
def test_a_wrong_output_is_named_and_fails_the_run(tmp_path: Path) -> None:
    script = PLANTED.format(tool=TOOL[1])
    done = subprocess.run([TOOL[0], "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 1, done.stderr
    assert "planted, gelu M=5 N=64" in done.stdout
    assert done.stdout.endswith("0 right, 1 wrong\n")


WITH_GRADIENTS = """
import runpy, sys
import kbench
kbench.operator("softmax").provider("planted")(lambda x: x.softmax(-1))

@kbench.operator("softmax").backward("planted", saves=["y"])
def gradients(dy, x, saved):
    y = saved[0]
    return y * (dy - (dy * y).sum(-1, keepdim=True))

sys.argv = ["kernels_sanitize.py", "float32", "--only", "softmax", "--providers", "planted", "--lengths", "64", "--rows", "5"]
sys.argv += ["--modes", "backward"]
runpy.run_path({tool!r}, run_name="__main__")
"""


@pytest.mark.slow
def test_one_mode_is_judged_alone(tmp_path: Path) -> None:
    script = WITH_GRADIENTS.format(tool=TOOL[1])
    done = subprocess.run([TOOL[0], "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("softmax planted backward: 1 right\n1 right, 0 wrong\n")
    assert "forward" not in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--providers", "cuda,cudaa"], "no operator has the provider cudaa"),
        (["--only", "swiglu"], "--only takes softmax"),
        (["--only", "gelu", "--providers", "cuda-in-place"], "no provider takes any of these cases"),
        (["--modes", "sideways"], "--modes takes forward, backward, full, not sideways"),
        (["--providers", "torch-native", "--modes", "full"], "no provider takes any of these cases"),
    ],
)
def test_an_empty_choice_is_an_error(options: list[str], said: str, tmp_path: Path) -> None:
    done = subprocess.run([*TOOL, *options], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 2
    assert said in done.stderr
