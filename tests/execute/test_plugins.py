"""Plug-ins of installed packages, which may fail: kbench warns about each, and measures the other providers."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from common import Kbench

EXTENDS = "import kbench, os, pathlib, time\nregister = kbench.operator('softmax').provider\n"
OPERATOR = "import kbench\nx = kbench.Tensor('M')\nkbench.Operator({}, ('M',), {{'x': x}}, {{'y': x}}, reference=max)\n"

PLUGINS = {
    "exits": "import os; os._exit(3)",
    "interrupts": "raise KeyboardInterrupt",
    "raises": "raise BaseException('no')",
    "again": OPERATOR.format("'softmax'"),
    "number": OPERATOR.format("5"),
    "asked": EXTENDS + "register('asked', available=lambda: os._exit(4))(lambda x: x)",
    "long": EXTENDS + "register('long', available=lambda: 'no' * 1000000)(lambda x: x)",
    "escapes": EXTENDS + "register('escapes', available=lambda: 'no: \\x1b]0;owned\\x07')(lambda x: x)",
    "fifo": EXTENDS
    + "os.path.exists('fifo') or os.mkfifo('fifo')\nregister('fifo', sources=[pathlib.Path('fifo')])(lambda x: x)",
    "binary": EXTENDS
    + "path = pathlib.Path('binary')\npath.write_bytes(bytes(range(256)))\nregister('binary', sources=[path])(lambda x: x)",
    "odd": EXTENDS + "register('odd', sources=[object()])(lambda x: x)",
    "keys": EXTENDS + "register('keys')(lambda x, *, a={(1, 2): 3}: x)",
}

WARNED = {
    "exits": "import: the process exited with code 3 while the plug-in was imported",
    "interrupts": "KeyboardInterrupt",
    "raises": "BaseException: no",
    "again": "operator 'softmax' exists already",
    "number": "a name must be text",
    "asked": "provider asked: the process exited with code 4 in its availability check",
    "odd": "TypeError: ",
}


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="makes a FIFO")
def test_whatever_they_do_other_providers_are_measured(
    kbench: Kbench, write_config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, code in PLUGINS.items():
        (tmp_path / f"p_{name}.py").write_text(code)
        package = tmp_path / f"p_{name}-1.dist-info"
        package.mkdir()
        (package / "METADATA").write_text(f"Metadata-Version: 2.1\nName: p_{name}\nVersion: 1\n")
        (package / "entry_points.txt").write_text(f"[kbench.plugins]\ntheirs = p_{name}\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ['PYTHONPATH']}")
    path = write_config(
        "operator: softmax\nsweep: {M: 4, N: 64}\nproviders: [torch-native]\n"
        "measure: {warmup_ms: 1, rep_ms: 2, rounds: 1, sessions: 2}\n"
    )
    done = kbench("run", path, "--no-plot")
    assert done.returncode == 0, done.stderr
    warnings = dict(re.findall(r"^warning: plug-in theirs \(p_(\w+)\) failed: (.*)$", done.stderr, re.MULTILINE))
    assert warnings.keys() == WARNED.keys(), done.stderr
    assert all(WARNED[name] in warnings[name] for name in WARNED), warnings
    assert done.stderr.count("warning:") == len(WARNED), "each once, also with two sessions"
    assert "\x1b" not in done.stderr and max(map(len, done.stderr.splitlines())) < 3000
