"""tools/kernels_sanitize.py judges kernels at shapes for every regime, here those of torch on the CPU."""

from __future__ import annotations

import subprocess
import sys

import pytest
from common import ROOT

TOOL = [sys.executable, str(ROOT / "tools/kernels_sanitize.py")]


PLANTED = """
import runpy, sys
import kbench
kbench.operator("gelu").provider("planted")(lambda x: x * 0.5)
sys.argv = ["kernels_sanitize.py", "float32", "--only", "gelu", "--providers", "planted", "--lengths", "64", "--rows", "5"]
runpy.run_path({tool!r}, run_name="__main__")
"""


@pytest.mark.slow
def test_a_wrong_output_is_named_and_fails_the_run() -> None:
    script = PLANTED.format(tool=TOOL[1])
    done = subprocess.run([TOOL[0], "-c", script], capture_output=True, text=True, timeout=200)
    assert done.returncode == 1, done.stderr
    assert "planted, gelu M=5 N=64" in done.stdout
    assert done.stdout.endswith("0 right, 1 wrong\n")
