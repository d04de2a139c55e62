"""tools/running_compile_ahead.py calls every provider of a config on every case, in several processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from common import ROOT

CONFIG = """\
operator: softmax
sweep: {M: 4, N: [32, 64], dtype: [float32, bfloat16]}
providers: [torch-native, torch-eager]
profiles: {one: {sweep: {M: 4, N: 32, dtype: float32}}}
"""


def compile_ahead(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "small.yaml").write_text(CONFIG)
    command = [sys.executable, str(ROOT / "tools/running_compile_ahead.py"), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.slow
def test_every_provider_is_called_on_every_case(tmp_path: Path) -> None:
    done = compile_ahead(tmp_path, "small.yaml", "small.yaml:one", "--processes", "1", "--limit", "100", "--whole", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    # 4 groups and 1 group, and a case of each that is measured whole; torch-eager declines the 2 cases in bfloat16
    assert "7 of 7 groups, 10 calls" in done.stdout
    for line in ("small.yaml torch-eager", "small.yaml:one torch-native", "small.yaml whole all"):
        assert line in done.stdout
    assert " x " not in done.stdout, "no provider failed"


@pytest.mark.slow
def test_a_limit_ends_everything(tmp_path: Path) -> None:
    done = compile_ahead(tmp_path, "small.yaml", "--processes", "1", "--limit", "0.2")
    assert done.returncode == 1
    assert "killed cases:0" in done.stdout and "0 of 0 groups" in done.stdout


@pytest.mark.slow
def test_a_profile_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    done = compile_ahead(tmp_path, "small.yaml:two")
    assert done.returncode == 2 and 'unknown profile "two"' in done.stderr
