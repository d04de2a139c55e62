"""The wheel works without the repository: it is built, installed into an empty environment and run there."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pandas as pd
import pytest
from common import ROOT

from kbench.config import builtin
from kbench.version import __version__

TINY = ("--set", "M=8", "--set", "N=64", "--only", "torch-native", "--no-plot")
TINY += ("--set", "warmup_ms=1", "--set", "rep_ms=1", "--set", "rounds=1", "--set", "cache=warm")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling", reason="hatchling is not installed: pip install '.[test]'")
    folder = tmp_path_factory.mktemp("wheel")
    call(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    [wheel] = folder.glob("kbench_gpu-*.whl")
    return wheel


def call(*command: object, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_wheel_has_every_file_of_the_package_and_the_configs(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if name.startswith("kbench/")}
    package = {str(path.relative_to(ROOT)) for path in (ROOT / "kbench").rglob("*") if path.is_file()}
    package = {name for name in package if "__pycache__" not in name}
    configs = {f"kbench/configs/{name}.yaml" for name in builtin.config_names()}
    assert inside == package | configs
    assert {
        "kbench/py.typed",
        "kbench/kernels/device.cuh",
        "kbench/kernels/kernel.h",
        "kbench/kernels/binding.cpp",
    } <= inside
    assert {Path(name).suffix for name in inside} >= {
        ".cu",
        ".cuh",
        ".h",
        ".cpp",
        ".yaml",
        ".yml",
        ".js",
        ".css",
        ".html",
    }


@pytest.mark.slow
def test_the_wheel_runs_in_an_environment_that_has_nothing_else_of_kbench(wheel: Path, tmp_path: Path) -> None:
    """What kbench depends on is found where these tests find it: installing torch again would take minutes."""
    environment, here = tmp_path / "environment", tmp_path / "here"
    here.mkdir()
    call(sys.executable, "-m", "venv", "--without-pip", environment, cwd=here)
    python = environment / "bin" / "python"
    call(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=here)
    [packages] = environment.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))

    kbench = environment / "bin" / "kbench"
    assert call(kbench, "--version", cwd=here) == f"kbench {__version__}\n"
    listed = call(kbench, "list", cwd=here)
    assert "torch-native" in listed and all(f"\n{name} " in listed for name in builtin.config_names())
    call(kbench, "run", "softmax", "--profile", "cpu", *TINY, cwd=here)
    rows = pd.read_csv(here / "results" / "softmax.csv").set_index("provider")
    assert rows.loc["torch-native"].status == "ok"
    found = call(python, "-c", "import kbench; print(kbench.__file__)", cwd=here)
    assert found.strip() == str(packages / "kbench" / "__init__.py")
