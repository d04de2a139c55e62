"""Plug-ins of installed packages, which may fail: kbench warns about each, and measures the other providers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from common import Kbench

EXTENDS = "import kbench, os, pathlib, time\nregister = kbench.operator('softmax').provider\n"
OPERATOR = "import kbench\nx = kbench.Tensor('M')\nkbench.Operator({}, ('M',), {{'x': x}}, {{'y': x}}, reference=max)\n"

PLUGINS = {
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
    for name, code in PLUGINS.items():
        install(name, code)
    done = kbench("run", write_config(CONFIG), "--no-plot")
    assert done.returncode == 0, done.stderr
    warnings = dict(re.findall(r"^warning: plug-in theirs \(p_(\w+)\) failed: (.*)$", done.stderr, re.MULTILINE))
    assert warnings.keys() == WARNED.keys(), done.stderr
    assert all(WARNED[name] in warnings[name] for name in WARNED), warnings
    assert done.stderr.count("warning:") == len(WARNED), "each once, also with two sessions"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("import os; os._exit(3)", "plug-in theirs (p_ends): the process exited with code 3 while importing it"),
        (
            EXTENDS + "register('asked', available=lambda: os._exit(3))(lambda x: x)",
            "provider asked of plug-in theirs (p_ends): the process exited with code 3 while asking whether it is available",
        ),
    ],
)
def test_one_that_ends_the_worker_ends_the_run_and_is_named(
    code: str, named: str, kbench: Kbench, write_config: Callable[[str], Path], install: Callable[[str, str], None]
) -> None:
    install("ends", code)
    done = kbench("run", write_config(CONFIG), "--no-plot")
    assert done.returncode == 3 and done.stderr == f"error: {named}; mend or uninstall it\n"


@pytest.mark.slow
def test_a_config_that_needs_one_that_failed_is_refused_with_the_cause(
    kbench: Kbench, write_config: Callable[[str], Path], install: Callable[[str, str], None]
) -> None:
    install("broken", "\nundefined_name")
    done = kbench("run", write_config(CONFIG.replace("torch-native", "theirs")), "--no-plot")
    assert done.returncode == 2 and 'unknown provider "theirs"' in done.stderr
    assert "p_broken.py:2: NameError: name 'undefined_name' is not defined" in done.stderr
