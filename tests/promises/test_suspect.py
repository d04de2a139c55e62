"""A row that is faster than the device can be is `suspect`, and says which numbers contradict each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from promises.outside import MadeOnce, providers_of, run_kbench

COUNTS = """
import kbench

counts = kbench.Operator(
    "counts",
    axes=("N",),
    inputs={"x": kbench.Tensor("N")},
    outputs={"y": kbench.Tensor("N")},
    reference=lambda x: x * 2,
    bytes=lambda case: 10**12 if case.axes["N"] == 64 else 2 * case.axes["N"] * 4,
)


@counts.provider("mine")
def mine(x):
    return x * 2
"""

CONFIG = """
operator: counts
sweep: {N: [64], dtype: float32}
providers: [mine]
measure: {rounds: 2, warmup_ms: 1, rep_ms: 1, cache: warm}
"""


@pytest.fixture(scope="session")
def suspect(made_once: MadeOnce) -> Path:
    def make(folder: Path) -> None:
        (folder / "counts.py").write_text(COUNTS)
        (folder / "counts.yaml").write_text(CONFIG)
        ended = run_kbench("run", "counts.yaml", "--plugin", "counts.py", "--no-plot", folder=folder)
        (folder / "out.txt").write_text(ended.out)
        run_kbench(
            "run",
            "counts.yaml",
            "--plugin",
            "counts.py",
            "--no-plot",
            "--set",
            "sweep.N=128",
            "--out",
            "right",
            folder=folder,
        )

    return made_once("suspect", make)


def test_the_reason_has_the_numbers_and_the_count_that_may_be_wrong(suspect: Path) -> None:
    (row,) = providers_of(suspect / "results" / "counts.csv")
    assert "suspect" in row["flags"].split(";")
    assert "bytes=" in row["reason"] and "1,000,000,000,000" in row["reason"] and "GB/s" in row["reason"]


def test_a_row_with_a_right_count_has_no_such_reason(suspect: Path) -> None:
    (row,) = providers_of(suspect / "right" / "counts.csv")
    assert "suspect" not in row["flags"] and row["reason"] == ""


def test_a_summary_in_which_every_row_is_suspect_has_no_table_without_rows(suspect: Path) -> None:
    out = (suspect / "out.txt").read_text()
    assert "suspect" in out
    assert not any(line.lstrip().startswith(":") for line in out.splitlines())
