"""`kbench dispatch`: what makes a branch, and what does not pay for one."""

from __future__ import annotations

import itertools
from pathlib import Path
from statistics import fmean

from decisions import NS, emitted, rows, written

from kbench.dispatching.dispatch import DispatchOptions, dispatch


def test_a_difference_below_the_margin_makes_no_branch_in_any_number_of_cases(tmp_path: Path) -> None:
    cases = [rows(n, {"torch": 1.0, "new": 0.96 if n < 4096 else 1.5}, m) for n in NS for m in range(1, 9)]
    path = written(tmp_path / "a.csv", cases)
    assert dispatch([path], DispatchOptions(margin=0.05, holdout=0)).decision.providers == ["torch"]
    assert dispatch([path], DispatchOptions(margin=0.03, holdout=0)).decision.providers == ["torch", "new"]


def test_a_provider_that_is_chosen_everywhere_is_also_chosen_for_words_that_were_not_measured(tmp_path: Path) -> None:
    cases = [rows(n, {"torch": 1.0, "new": 0.9}) for n in NS]
    found = dispatch([written(tmp_path / "a.csv", cases)], DispatchOptions(holdout=0))
    choose = emitted(found, tmp_path)
    assert found.decision.providers == ["new"]
    assert {choose(64, 1024, dtype) for dtype in ("float32", "int4")} == {"new"}
    head = (tmp_path / "dispatch.py").read_text().split("from __future__")[0]
    assert "Measured: M=64; N from 128 to 262144; dtype: float32." in head
    assert "`choose` always returns it" in head
    assert "threshold" not in head


def test_an_unclear_difference_makes_no_branch(tmp_path: Path) -> None:
    cases = [rows(n, {"torch": 1.0, "new": 1.5}) for n in NS]
    for row in itertools.chain(*cases):
        if row.provider == "new" and row.case.N > 4096:  # mostly faster, with rounds that say otherwise
            row.ms, row.round_ms = 0.8, (0.8, 1.3, 0.7, 1.4, 0.8)
    assert dispatch([written(tmp_path / "a.csv", cases)], DispatchOptions()).decision.providers == ["torch"]


def test_a_product_of_sizes_is_used_where_it_decides(tmp_path: Path) -> None:
    sizes = [(m, n) for m in (16, 64, 256, 1024, 4096) for n in (16, 64, 256, 1024, 4096)]
    cases = [rows(n, {"torch": 1.0, "big": 0.5 if m * n > 70_000 else 2.0}, m) for m, n in sizes]
    path = written(tmp_path / "a.csv", cases)
    found = dispatch([path], DispatchOptions())
    choose = emitted(found, tmp_path)
    assert "M * N" in (tmp_path / "dispatch.py").read_text()
    assert choose(1024, 1024, "float32") == "big" and choose(1024, 16, "float32") == "torch"
    assert found.held_out and fmean(loss.regret for loss in found.held_out) < 0.1
