"""`import kbench` and `python -m kbench` leave other modules alone, and are left alone by them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from promises.outside import ROOT, Kbench, Write


def run_python(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_package_that_imports_kbench_still_finds_the_modules_of_its_folder(folder: Path, write: Write) -> None:
    write("mypkg/__init__.py", "import kbench\n")
    write("mypkg/__main__.py", "import helper\nprint(helper.word)\n")
    write("helper.py", "word = 'found'\n")
    ended = run_python("-m", "mypkg", folder=folder)
    assert ended.stdout == "found\n", ended.stderr


def test_importing_kbench_leaves_the_search_path_as_it_was(folder: Path) -> None:
    ended = run_python(
        "-c", "import sys; before = list(sys.path); import kbench; print(sys.path == before)", folder=folder
    )
    assert ended.stdout == "True\n", ended.stderr


def test_python_m_kbench_imports_nothing_from_the_working_folder(kbench_process: Kbench, write: Write) -> None:
    for name in ("queue", "signal", "json", "statistics", "torch"):
        write(f"{name}.py", "raise SystemExit('imported from the working folder')\n")
    ended = kbench_process("explain", "noisy")
    assert ended.code == 0 and ended.out.startswith("noisy"), ended.text
