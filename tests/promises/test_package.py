"""kbench as a package: how it starts, what its wheel holds, and what the README asks of a machine."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from promises.outside import QUICK, ROOT, Ended, Kbench, MadeOnce, Write

README = (ROOT / "README.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DEPENDENCIES = [
    *PROJECT["dependencies"],
    *(name for extra in PROJECT["optional-dependencies"].values() for name in extra),
]


def run_python(*arguments: str, folder: Path, path: Path = ROOT) -> Ended:
    """Run Python in a folder, with the kbench of this path."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


# -- its start


def test_help_needs_less_than_a_fifth_of_a_second_of_cpu(kbench_process: Kbench) -> None:
    kbench_process("--help")  # Python compiles the modules once
    spent_s = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        ended = kbench_process("--help")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent_s.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert ended.code == 0 and "kbench run softmax" in ended.out
    assert min(spent_s) < 0.2


def test_importing_kbench_imports_nothing_heavy_and_a_package_still_finds_the_modules_of_its_folder(
    folder: Path, write: Write
) -> None:
    heavy = {"torch", "triton", "pandas", "numpy", "matplotlib", "rich"}
    source = "import sys; before = list(sys.path); import kbench; "
    source += f"print(sorted({heavy} & set(sys.modules)), sys.path == before)"
    ended = run_python("-c", source, folder=folder)
    assert ended.out == "[] True\n", ended.err
    write("mypkg/__init__.py", "import kbench\n")
    write("mypkg/__main__.py", "import helper\nprint(helper.word)\n")
    write("helper.py", "word = 'found'\n")
    ended = run_python("-m", "mypkg", folder=folder)
    assert ended.out == "found\n", ended.err


def test_a_plug_in_imports_modules_beside_it_and_none_of_the_working_folder_and_prints_nothing_to_stdout(
    kbench_process: Kbench, write: Write
) -> None:
    for name in ("queue", "torch", "triton", "signal", "platform", "numbers", "statistics", "numpy", "ctypes", "json"):
        write(f"{name}.py", "raise SystemExit('imported from the working folder')\n")
    prints = "print('printed'); os.write(1, b'printed')"
    write("plugins/helper.py", f"import os, torch\ndef softmax(x): {prints}; return torch.softmax(x, -1)\n")
    write("plugins/mine.py", "import kbench, helper\nkbench.operator('softmax').provider('mine')(helper.softmax)\n")
    write("s.yaml", "{operator: softmax, sweep: {M: 4, N: 64}, providers: [mine], plugins: [plugins/mine.py]}")
    ended = kbench_process("run", "s.yaml", *QUICK, "--no-plot")
    assert ended.code == 0 and "working folder" not in ended.text and "printed" not in ended.out, ended.text


def test_python_m_kbench_is_the_command_and_version_prints_the_version(kbench_process: Kbench, folder: Path) -> None:
    version = kbench_process("--version")
    assert version.code == 0 and re.fullmatch(r"kbench \d+\.\d+.*\n", version.out)
    installed = Path(sys.executable).with_name("kbench")
    if not installed.exists():
        pytest.skip("the command is not installed beside this Python")
    done = subprocess.run([installed, "--version"], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout == version.out


# -- its wheel, built from the tree and unpacked into a folder elsewhere


@pytest.fixture
def unpacked(made_once: MadeOnce) -> Path:
    def build(folder: Path) -> None:
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
        [wheel] = folder.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder / "unpacked")

    return made_once("wheel", build) / "unpacked"


@pytest.fixture
def installed(unpacked: Path, folder: Path) -> Callable[..., Ended]:
    """Run kbench of the wheel, in a folder without anything of the clone."""
    return lambda *words: run_python("-m", "kbench", *words, folder=folder, path=unpacked)


def test_run_finds_the_built_in_configs_of_the_wheel(installed: Callable[..., Ended], unpacked: Path) -> None:
    ended = installed("run", "softmax", "--dry-run", "--only", "torch-native")
    assert ended.code == 0 and "torch-native" in ended.out, ended.err
    assert str(unpacked) in ended.err and str(ROOT) not in ended.text


def test_init_of_the_wheel_has_the_files_of_the_clone(installed: Callable[..., Ended], folder: Path) -> None:
    assert installed("init", "rownorm").code == 0
    assert {"rownorm.yaml", "my_rownorm.py"} <= {path.name for path in folder.iterdir()}


def test_the_wheel_has_types_kernels_the_command_and_no_tests(unpacked: Path) -> None:
    inside = {path.relative_to(unpacked) for path in unpacked.rglob("*") if path.is_file()}
    assert {path.parts[0] for path in inside if not path.parts[0].endswith(".dist-info")} == {"kbench"}
    package = {path.relative_to(ROOT) for path in (ROOT / "kbench").rglob("*") if path.is_file()}
    package = {path for path in package if "__pycache__" not in path.parts}
    assert {".py", ".typed", ".cu", ".cuh", ".css"} <= {path.suffix for path in package}
    configs = {Path("kbench", "configs", path.name) for path in (ROOT / "configs").glob("*.yaml")}
    assert configs and package | configs <= inside
    [points] = unpacked.glob("*.dist-info/entry_points.txt")
    assert "\nkbench = kbench" in points.read_text()


# -- its versions, and what the README says to somebody who has just cloned the repository


def release(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def test_every_dependency_has_a_lowest_version_and_the_versions_that_make_installs_are_allowed() -> None:
    assert [name for name in DEPENDENCIES if not re.match(r"[A-Za-z0-9-]+>=[0-9.]+", name)] == []
    lowest = dict(re.findall(r"([\w-]+)>=([0-9.]+)", "\n".join(DEPENDENCIES).lower()))
    pinned = re.findall(r"^([\w-]+)==([0-9.]+)$", (ROOT / "constraints.txt").read_text().lower(), re.MULTILINE)
    assert len(pinned) > 20
    for name, version in pinned:
        assert release(version) >= release(lowest.get(name, "0")), f"{name}=={version}"


def test_the_readme_says_what_kbench_needs_and_how_to_install_it() -> None:
    [torch] = [name for name in PROJECT["dependencies"] if name.startswith("torch")]
    assert f"{torch.removeprefix('torch>=')} or newer" in README
    assert f"Python {PROJECT['requires-python'].removeprefix('>=')}" in README
    assert f"`{PROJECT['name']}`" in README and "Linux" in README and "macOS" in README
    assert "pip install -c constraints.txt ." in README and (ROOT / "constraints.txt").is_file()
    for target, does in {"bench": "configs/softmax.yaml", "test": "pytest"}.items():
        planned = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert re.search(rf"^make {target} ", README, re.MULTILINE) and does in planned.stdout
