"""The wheel works without the clone: it is built from the tree and unpacked into a folder elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from promises.outside import ROOT, Ended, MadeOnce


def build(folder: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "unpacked")


@pytest.fixture
def unpacked(made_once: MadeOnce) -> Path:
    return made_once("wheel", build) / "unpacked"


@pytest.fixture
def installed(unpacked: Path, folder: Path) -> Callable[..., Ended]:
    """Run kbench of the wheel, in a folder without anything of the clone."""

    def run(*words: str) -> Ended:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(unpacked)},
            capture_output=True,
            text=True,
            timeout=120,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    return run


def test_the_package_is_the_one_of_the_wheel(installed: Callable[..., Ended], unpacked: Path) -> None:
    ended = installed("-c", "import kbench; print(kbench.__file__)")
    assert Path(ended.out.strip()).is_relative_to(unpacked), ended.err


def test_run_finds_the_built_in_configs_of_the_wheel(installed: Callable[..., Ended], unpacked: Path) -> None:
    ended = installed("-m", "kbench", "run", "softmax", "--dry-run", "--only", "torch-native")
    assert ended.code == 0 and "torch-native" in ended.out, ended.err
    assert str(unpacked) in ended.err and str(ROOT) not in ended.text


def test_list_of_the_wheel_names_every_config_of_the_clone(installed: Callable[..., Ended]) -> None:
    ended = installed("-m", "kbench", "list")
    names = {line.split()[0] for line in ended.out.splitlines() if line.strip()}
    assert ended.code == 0 and {path.stem for path in (ROOT / "configs").glob("*.yaml")} <= names


def test_init_of_the_wheel_writes_its_files(installed: Callable[..., Ended], folder: Path) -> None:
    assert installed("-m", "kbench", "init", "rownorm").code == 0
    assert {"rownorm.yaml", "my_rownorm.py"} <= {path.name for path in folder.iterdir()}


def test_the_wheel_has_types_kernels_and_no_tests(unpacked: Path) -> None:
    assert (unpacked / "kbench" / "py.typed").exists()
    inside = {path.relative_to(unpacked).parts[0] for path in unpacked.rglob("*") if path.is_file()}
    assert {name for name in inside if not name.endswith(".dist-info")} == {"kbench"}
    sources = {path.relative_to(ROOT) for path in (ROOT / "kbench").rglob("*.cu*")}
    assert sources and all((unpacked / path).exists() for path in sources)


def test_the_wheel_installs_the_command_kbench(unpacked: Path) -> None:
    [points] = unpacked.glob("*.dist-info/entry_points.txt")
    assert "\nkbench = kbench" in points.read_text()
