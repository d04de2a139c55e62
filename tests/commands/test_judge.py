"""`kbench judge` as a reviewer uses it: one verdict, one exit code, JSON with a schema."""

from __future__ import annotations

import json
import re
from pathlib import Path

from common import Kbench

FIRST = """
import torch
import kbench

first = kbench.Operator(
    "first",
    axes=("N", "k"),
    inputs={"x": kbench.Tensor("N")},
    outputs={"y": kbench.Tensor("k")},
    reference=lambda x, *, k: x.topk(k)[0],
)
first.provider("sort", factory=True)(lambda case: lambda x: x.sort(descending=True)[0][:case.k].clone())
first.provider("topk", factory=True)(lambda case: lambda x: x.topk(case.k)[0])
"""


def test_sizes_that_the_reference_refuses_only_together_are_no_fault_of_a_provider(
    kbench: Kbench, tmp_path: Path
) -> None:
    """With k above N there is no answer, also where both are large."""
    (tmp_path / "first.py").write_text(FIRST)
    (tmp_path / "first.yaml").write_text(
        "{operator: first, sweep: {N: 64, k: 4}, providers: [sort, topk], measure: {rounds: 2, rep_ms: 1}}"
    )
    done = kbench("judge", "first.py", "--against", "first.yaml", "--shapes", "12", "--seed", "1", "--json")
    for provider in json.loads(done.stdout)["providers"]:
        assert provider["correct"] and not provider["failures"]
    counts = re.findall(r"^left out (\d+) random shapes.*first N=", done.stderr, re.MULTILINE)
    assert len(counts) == 1 and json.loads(done.stdout)["random_shapes"] + int(counts[0]) == 12
