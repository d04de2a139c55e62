"""What providers and installed plug-ins do besides computing: one that fails costs its own rows, or is named."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from common import PLUGINS, Kbench

EXTENDS = "import kbench, os, pathlib, time\nregister = kbench.operator('softmax').provider\n"
OPERATOR = "import kbench\nx = kbench.Tensor('M')\nkbench.Operator({}, ('M',), {{'x': x}}, {{'y': x}}, reference=max)\n"

INSTALLED = {
    "interrupts": "raise KeyboardInterrupt",
    "raises": "raise BaseException('no')",
    "again": OPERATOR.format("'softmax'"),
    "number": OPERATOR.format("5"),
    "binary": EXTENDS
    + "path = pathlib.Path('binary')\npath.write_bytes(bytes(range(256)))\nregister('binary', sources=[path])(lambda x: x)",
    "odd": EXTENDS + "register('odd', sources=[object()])(lambda x: x)",
    "keys": EXTENDS + "register('keys')(lambda x, *, a={(1, 2): 3}: x)",
}

WARNED = {
    "interrupts": "KeyboardInterrupt",
    "raises": "BaseException: no",
    "again": "operator 'softmax' exists already",
    "number": "a name must be text",
    "odd": "TypeError: ",
}


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Make a package with a plug-in, which the worker finds."""
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ['PYTHONPATH']}")

    def install(name: str, code: str) -> None:
        (tmp_path / f"p_{name}.py").write_text(code)
        package = tmp_path / f"p_{name}-1.dist-info"
        package.mkdir()
        (package / "METADATA").write_text(f"Metadata-Version: 2.1\nName: p_{name}\nVersion: 1\n")
        (package / "entry_points.txt").write_text(f"[kbench.plugins]\ntheirs = p_{name}\n")

    return install


CONFIG = (
    "operator: softmax\nsweep: {M: 4, N: 64}\nproviders: [torch-native]\n"
    "measure: {warmup_ms: 1, rep_ms: 2, rounds: 1, sessions: 2}\n"
)


@pytest.mark.slow
def test_whatever_they_do_other_providers_are_measured(
    kbench: Kbench, write_config: Callable[[str], Path], install: Callable[[str, str], None]
) -> None:
    for name, code in INSTALLED.items():
        install(name, code)
    done = kbench("run", write_config(CONFIG), "--no-plot")
    assert done.returncode == 0, done.stderr
    warnings = dict(re.findall(r"^warning: plug-in theirs \(p_(\w+)\) failed: (.*)$", done.stderr, re.MULTILINE))
    assert warnings.keys() == WARNED.keys(), done.stderr
    assert all(WARNED[name] in warnings[name] for name in WARNED), warnings
    assert done.stderr.count("warning:") == len(WARNED), "each once, also with two sessions"


# -- what providers and compilers say


SWEEP = """
operator: softmax
sweep: {{M: 4, N: 128, dtype: float32}}
providers: [torch-native, {providers}]
baseline: torch-native
plugins: [{plugin}]
measure: {{warmup_ms: 1, rep_ms: 5, rounds: 2, timeout_s: 20}}
"""


def sweep(write_config, plugin: str, providers: list[str]) -> Path:
    return write_config(SWEEP.format(providers=", ".join(providers), plugin=PLUGINS / plugin))


def rows_of(tmp_path: Path) -> pd.DataFrame:
    rows = pd.read_csv(tmp_path / "results" / "sweep.csv", keep_default_na=True)
    return rows[rows.role == "provider"]


ASKED = {
    "supports-raises": ("error", "AttributeError: "),
    "supports-is-true": ("error", "TypeError: supports= returned True; return None, or a string with the reason"),
    "moved-bytes-raises": ("error", "ZeroDivisionError: "),
    "moved-bytes-is-none": (
        "error",
        "ValueError: moved_bytes= returned None; it must return a number from 0 to 2^63 - 1",
    ),
    "dotted-package": ("unavailable", "Python package 'not_installed.part' is not installed"),
    "available-raises": ("unavailable", "RuntimeError: no libfoo.so at asked.py:"),
}


@pytest.mark.slow
def test_what_a_provider_says_about_itself_costs_its_own_row_only(kbench: Kbench, write_config, tmp_path: Path) -> None:
    done = kbench("run", sweep(write_config, "asked.py", list(ASKED)))
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    rows = rows_of(tmp_path).set_index("provider")
    for name, (status, reason) in ASKED.items():
        assert rows.loc[name].status == status and reason in rows.loc[name].reason, f"{name}: {rows.loc[name].reason}"
    assert rows.loc["torch-native"].status == "ok"
