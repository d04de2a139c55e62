"""What providers say of themselves, and what compilers say of them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from common import PLUGINS, Kbench

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


@pytest.mark.slow
def test_what_a_compiler_says_is_the_reason(kbench: Kbench, write_config, tmp_path: Path) -> None:
    pytest.importorskip("triton")
    done = kbench("run", sweep(write_config, "uncompilable.py", ["does-not-compile"]))
    assert done.returncode == 1, done.stderr
    reason = rows_of(tmp_path).set_index("provider").loc["does-not-compile"].reason
    assert "CompilationError: at 3:26: NameError('undefined_name is not defined') at uncompilable.py:" in reason


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
