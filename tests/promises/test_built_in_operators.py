"""What the operators that kbench brings along must get right."""

from __future__ import annotations

from pathlib import Path

from promises.outside import Kbench, Write, providers_of

NOTHING = """
operator: matmul
sweep: {M: 4, N: 3, K: 0, dtype: bfloat16, mode: [forward, backward, full]}
providers: [torch-native, triton]
measure: {rounds: 2, warmup_ms: 1, rep_ms: 2, cache: warm}
"""


def test_a_matrix_product_over_nothing_is_zero_in_every_mode(kbench: Kbench, write: Write, folder: Path) -> None:
    write("nothing.yaml", NOTHING)
    ended = kbench("run", "nothing.yaml", "--out", "results")
    rows = providers_of(folder / "results" / "nothing.csv")
    assert ended.code == 0, ended.text
    assert len(rows) == 6 and {row["status"] for row in rows} <= {"ok", "checked"}
    assert {row["max_ulp"] for row in rows} == {"0.0"}
