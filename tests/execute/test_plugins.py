"""What providers and installed plug-ins do besides computing: one that fails costs its own rows, or is named."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from common import Kbench

from kbench.results.reader import read_results

EXTENDS = "import kbench, os, pathlib, time\nregister = kbench.operator('softmax').provider\n"
OPERATOR = "import kbench\nx = kbench.Tensor('M')\nkbench.Operator({}, ('M',), {{'x': x}}, {{'y': x}}, reference=max)\n"

INSTALLED = {
    "interrupts": "raise KeyboardInterrupt",
    "raises": "raise BaseException('no')",
    "again": OPERATOR.format("'softmax'"),
    "twice": OPERATOR.format("'twice'") + "import runpy\nrunpy.run_path(__file__)",
    "number": OPERATOR.format("5"),
    "binary": EXTENDS
    + "path = pathlib.Path('binary')\npath.write_bytes(bytes(range(256)))\nregister('binary', sources=[path])(lambda x: x)",
    "odd": EXTENDS + "register('odd', sources=[object()])(lambda x: x)",
    "keys": EXTENDS + "register('keys')(lambda x, *, a={(1, 2): 3}: x)",
}

WARNED = {
    "interrupts": "KeyboardInterrupt",
    "raises": "BaseException: no",
    "again": "operator 'softmax' exists already; add providers to it",
    "twice": "its file is imported twice",
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


# -- what providers say of themselves

ASKED = """
import kbench

ASKED = {
    "supports-raises": {"supports": lambda case: "too long" if case.K > 3 else None},
    "supports-is-true": {"supports": lambda case: True},
    "moved-bytes-raises": {"moved_bytes": lambda case: case.N // 0},
    "moved-bytes-is-none": {"moved_bytes": lambda case: None},
    "dotted-package": {"requires": "not_installed.part"},
    "available-raises": {"available": lambda: open("libfoo.so")},
}
for name, said in ASKED.items():
    kbench.operator("softmax").provider(name, **said)(lambda x: x.softmax(-1))
"""
SAID = {
    "torch-native": ("ok", ""),
    "supports-raises": ("error", "AttributeError: "),
    "supports-is-true": ("error", "TypeError: supports= returned True; return None, or a string with the reason"),
    "moved-bytes-raises": ("error", "ZeroDivisionError: "),
    "moved-bytes-is-none": (
        "error",
        "ValueError: moved_bytes= returned None; it must return a number from 0 to 2^63 - 1",
    ),
    "dotted-package": ("unavailable", "Python package 'not_installed.part' is not installed"),
    "available-raises": (
        "unavailable",
        "FileNotFoundError: [Errno 2] No such file or directory: 'libfoo.so' at asked.py:",
    ),
}


CONFIG = f"""
operator: softmax
plugins: [asked.py]
sweep: {{M: 4, N: 64}}
providers: [{", ".join(SAID)}]
measure: {{warmup_ms: 1, rep_ms: 2, rounds: 1, sessions: 2, cache: warm}}
"""


@pytest.mark.slow
def test_whatever_they_do_and_say_other_providers_are_measured(
    kbench: Kbench, write_config: Callable[[str], Path], install: Callable[[str, str], None], tmp_path: Path
) -> None:
    for name, code in INSTALLED.items():
        install(name, code)
    (tmp_path / "asked.py").write_text(ASKED)
    done = kbench("run", write_config(CONFIG), "--no-plot")
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    warnings = dict(re.findall(r"^warning: plug-in theirs \(p_(\w+)\) failed: (.*)$", done.stderr, re.MULTILINE))
    assert warnings.keys() == WARNED.keys(), done.stderr
    assert all(WARNED[name] in warnings[name] for name in WARNED), warnings
    assert done.stderr.count("warning:") == len(WARNED), "each once, also with two sessions"
    rows = read_results(tmp_path / "results" / "sweep.csv").provider_rows
    for row in rows:
        status, reason = SAID[row.provider]
        assert row.status == status and reason in row.reason, f"{row.provider}: {row.reason}"
    assert len(rows) == 2 * len(SAID)
