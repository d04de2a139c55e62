"""`kbench check`: what stands in the table, and below it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from common import Kbench

PLUGIN = """
import kbench

doubled = kbench.Operator(
    "doubled", axes=("N",), inputs={"x": kbench.Tensor("N")}, outputs={"y": kbench.Tensor("N")}, reference=lambda x: x * 2
)
doubled.provider("right")(lambda x: x * 2)
doubled.provider("even", supports=lambda case: "N must be even" if case.N % 2 else None)(lambda x: x * 2)
doubled.provider("short")(lambda x: x[:-1] * 2)
doubled.provider("raises")(lambda x: x.missing)
"""


@pytest.mark.slow
def test_a_case_that_does_not_fit_into_memory_is_oom_and_the_line_of_each_case_says_who_failed(
    kbench: Kbench, write_config: Callable[[str], Path]
) -> None:
    config = write_config(
        "{operator: doubled, sweep: {N: [8, 1000000000000], dtype: float32}, providers: [right, even, short, raises]}"
    )
    plugin = config.parent / "mine.py"
    plugin.write_text(PLUGIN)
    done = kbench("check", config, "--plugin", plugin)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "[1/2] doubled N=8 float32: checked; short wrong, raises error" in done.stderr
    assert "[2/2] doubled N=1000000000000 float32: checked; right oom, even oom, short oom, raises oom" in done.stderr
    cells = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line}
    assert cells["random"][:2] == ["oom", "oom"] and cells["N=1"][:3] == ["ok", "0.0", "declined"]
    [line] = [line for line in done.stdout.splitlines() if line.startswith("right: oom")]
    assert "(doubled N=1000000000000 float32): the case's inputs and reference do not fit into memory: " in line
    [line] = [line for line in done.stdout.splitlines() if line.startswith("raises: error")]
    assert "no attribute 'missing'" in line and "before timing" not in line, "nothing is timed"
