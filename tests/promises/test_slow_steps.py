"""A provider that takes long for a step is named while it runs, with the limit that will end it."""

from __future__ import annotations

from pathlib import Path

import pytest

from promises.outside import Kbench, Write, providers_of


@pytest.mark.slow
def test_a_provider_that_hangs_is_named_with_its_limit_before_the_limit_ends_it(
    kbench: Kbench, write: Write, folder: Path
) -> None:
    write(
        "hangs.py",
        """
import time

import kbench


@kbench.operator("softmax").provider("mine")
def mine(x):
    time.sleep(3600)
""",
    )
    write(
        "hangs.yaml",
        """
operator: softmax
sweep: {M: 4, N: 64, dtype: float32}
providers: [mine]
measure: {rounds: 2, warmup_ms: 1, rep_ms: 1, cache: warm, build_timeout_s: 22}
""",
    )
    ended = kbench("run", "hangs.yaml", "--plugin", "hangs.py", "--no-plot")
    (row,) = providers_of(folder / "results" / "hangs.csv")
    assert row["status"] == "timeout"
    lines = [line for line in ended.err.splitlines() if "mine" in line and "build_timeout_s" in line]
    assert len(lines) == 1, ended.err
    assert "20 s" in lines[0] and "22 s" in lines[0]
    assert ended.err.index(lines[0]) < ended.err.index("timeout: ")
