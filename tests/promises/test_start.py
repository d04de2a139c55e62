"""How the program starts."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

from promises.outside import ROOT, Kbench


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


def test_importing_kbench_imports_nothing_heavy(folder: Path) -> None:
    heavy = {"torch", "triton", "pandas", "numpy", "matplotlib", "rich"}
    source = f"import sys, kbench; print(sorted({heavy} & set(sys.modules)))"
    ended = subprocess.run(
        [sys.executable, "-c", source],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert ended.stdout == "[]\n", ended.stderr
