"""`kbench check`: what stands in the table, and below it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from common import Kbench

JUDGED = """
import kbench

judged = kbench.Operator(
    "judged",
    axes=("N",),
    inputs={"x": kbench.Tensor("N")},
    outputs={"y": kbench.Tensor("N")},
    reference=lambda x: x * 2,
    check=lambda case, inputs, outputs, expected: None,
)
judged.provider("right")(lambda x: x * 2)
judged.provider("gone", requires="no_such_package")(lambda x: x * 2)


@judged.provider("even", supports=lambda case: "N must be even" if case.N % 2 else None)
def even(x, *, block=1):
    return x * 2
"""


@pytest.mark.slow
def test_check_says_once_why_a_provider_declines(kbench: Kbench, write_config: Callable[[str], Path]) -> None:
    config = write_config(
        "{operator: judged, sweep: {N: [3, 5, 8], dtype: float32}, providers: [right, gone, {even: {block: [1, 2]}}]}"
    )
    plugin = config.parent / "judged.py"
    plugin.write_text(JUDGED)
    done = kbench("check", config, "--plugin", plugin, "--all")
    assert done.returncode == 0, done.stdout + done.stderr
    below = [line for line in done.stdout.splitlines() if "N must be even" in line]
    assert below == ["even: declined on random, N=1 (3 cases): N must be even"]
    assert [line for line in done.stdout.splitlines() if "gone" in line] == [
        "gone: unavailable: Python package 'no_such_package' is not installed"
    ]
    # the operator judges its outputs itself, so no cell claims an error of 0
    assert "each cell shows ok (the operator has a check of its own), declined" in done.stdout
    random = next(line for line in done.stdout.splitlines() if line.startswith("random"))
    assert random.split() == ["random", "ok", "declined", "declined"]
