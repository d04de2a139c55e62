"""`kbench dispatch`: what makes a branch, and what does not pay for one."""

from __future__ import annotations

import itertools
from pathlib import Path

from decisions import NS, emitted, rows, written

from kbench.dispatching.dispatch import DispatchOptions, dispatch
from kbench.dispatching.tree import Branch, Threshold


def test_a_tie_makes_no_branch(tmp_path: Path) -> None:
    cases = [rows(n, {"torch": 1.0, "new": 0.99 if n < 4096 else 1.01}) for n in NS]
    assert len(dispatch([written(tmp_path / "a.csv", cases)], DispatchOptions()).decision.providers) == 1


def test_a_difference_below_the_margin_makes_no_branch_in_any_number_of_cases(tmp_path: Path) -> None:
    cases = [rows(n, {"torch": 1.0, "new": 0.96 if n < 4096 else 1.5}, m) for n in NS for m in range(1, 9)]
    path = written(tmp_path / "a.csv", cases)
    assert dispatch([path], DispatchOptions(margin=0.05, holdout=0)).decision.providers == ["torch"]
    assert dispatch([path], DispatchOptions(margin=0.03, holdout=0)).decision.providers == ["torch", "new"]


def test_a_provider_that_is_chosen_everywhere_is_also_chosen_for_words_that_were_not_measured(tmp_path: Path) -> None:
    """new is the fastest provider on average, but torch never loses more than the margin."""
    cases = [rows(n, {"torch": 1.0, "new": 0.97 if n < 65536 else 1.04}) for n in NS]
    found = dispatch([written(tmp_path / "a.csv", cases)], DispatchOptions(margin=0.035, holdout=0))
    choose, document = emitted(found, tmp_path)
    assert found.decision.providers == [document["general"]] == ["torch"]
    assert {choose(64, 1024, dtype) for dtype in ("float32", "int4")} == {"torch"}
    head = (tmp_path / "dispatch.py").read_text().split("from __future__")[0]
    assert "Measured: M=64; N from 128 to 262144; dtype: float32." in head
    assert "`choose` always returns it" in head
    assert "threshold" not in head


def test_small_regrets_show_the_range_in_which_a_large_one_lies(tmp_path: Path) -> None:
    def times(m: int, n: int) -> dict[str, float]:
        return {"torch": 1.0, "new": 0.5 if (m, n) == (8, 1024) else 0.98 if 512 <= n <= 2048 else 1.3}

    cases = [rows(n, times(m, n), m) for n in NS for m in (8, 64, 512, 4096)]
    choose, _ = emitted(dispatch([written(tmp_path / "a.csv", cases)], DispatchOptions(holdout=0)), tmp_path)
    chosen = {(m, n): choose(m, n, "float32") for m in (8, 64, 512, 4096) for n in (256, 512, 1024, 2048, 4096)}
    assert {place for place, name in chosen.items() if name == "new"} == {
        (m, n) for m in (8, 64, 512, 4096) for n in (512, 1024, 2048)
    }


def test_a_large_regret_elsewhere_does_not_pay_for_small_ones(tmp_path: Path) -> None:
    def new(m: int, n: int) -> float:
        return 0.9 if (m, n) == (8, 128) else 0.98 if n > 4096 else 1.5

    cases = [rows(n, {"torch": 1.0, "new": new(m, n)}, m) for n in NS for m in (8, 64, 512, 4096)]
    found = dispatch([written(tmp_path / "a.csv", cases)], DispatchOptions(holdout=0))
    assert found.decision.providers == ["torch"]


def test_an_unclear_difference_makes_no_branch(tmp_path: Path) -> None:
    cases = [rows(n, {"torch": 1.0, "new": 1.5}) for n in NS]
    for row in itertools.chain(*cases):
        if row.provider == "new" and row.case.N > 4096:  # mostly faster, with rounds that say otherwise
            row.ms, row.round_ms = 0.8, (0.8, 1.3, 0.7, 1.4, 0.8)
    assert dispatch([written(tmp_path / "a.csv", cases)], DispatchOptions()).decision.providers == ["torch"]


def test_the_limit_keeps_the_providers_that_save_most(tmp_path: Path) -> None:
    def times(n: int) -> dict[str, float]:
        return {"torch": 1.0, "small": 0.5 if n < 1024 else 2.0, "large": 0.7 if n > 30_000 else 2.0}

    path = written(tmp_path / "a.csv", [rows(n, times(n)) for n in NS])
    used = [dispatch([path], DispatchOptions(limit=limit, holdout=0)).decision.providers for limit in (1, 2, 3)]
    assert used == [["torch"], ["torch", "small"], ["torch", "small", "large"]]


def test_a_threshold_lies_where_both_sides_are_as_fast(tmp_path: Path) -> None:
    def times(n: int) -> dict[str, float]:
        return {"torch": 1.0, "row": {1024: 0.9, 16384: 1.3}.get(n, 0.5 if n < 1024 else 2.0)}

    path = written(
        tmp_path / "a.csv", [rows(n, times(n), m) for n in (256, 512, 1024, 16384, 32768, 65536) for m in (8, 64)]
    )
    choose, _ = emitted(dispatch([path], DispatchOptions(holdout=0)), tmp_path)
    last = max(n for n in range(1024, 16384) if choose(8, n, "float32") == "row")
    assert (
        1500 < last < 4096
    )  # a quarter of the way in logarithms: at 1024 row leads by 11 %, at 16384 it trails by 30 %


def test_cases_with_one_best_provider_on_both_sides_do_not_hold_a_threshold(tmp_path: Path) -> None:
    """At M=1, row leads by 20 % up to 16384 and trails by 20 % from 65536 on. At M=64, it leads at sizes between these too."""

    def leads(n: int, m: int) -> dict[str, float]:
        return {"torch": 1.2, "row": 1.0} if m > 1 or n <= 16384 else {"torch": 1.0, "row": 1.2}

    sizes = {1: (4096, 8192, 16384, 65536, 80000, 98304, 131072, 160000, 200000, 262144)}
    sizes |= {64: (4096, 8192, 16384, 20000, 40000, 60000, 65536, 80000)}
    path = written(tmp_path / "a.csv", [rows(n, leads(n, m), m) for m in sizes for n in sizes[m]])
    found = dispatch([path], DispatchOptions(holdout=0))
    assert found.measured.worst.regret == 0 and isinstance(found.decision.tree, Branch)
    assert isinstance(found.decision.tree.test, Threshold) and found.decision.tree.test.factors == ("N",)
    choose, _ = emitted(found, tmp_path)
    assert choose(1, 32000, "float32") == "row" and choose(1, 33000, "float32") == "torch"
    assert {choose(64, n, "float32") for n in range(4096, 80001, 1000)} == {"row"}


def test_a_product_of_sizes_is_used_where_it_decides(tmp_path: Path) -> None:
    sizes = [(m, n) for m in (16, 64, 256, 1024, 4096) for n in (16, 64, 256, 1024, 4096)]
    cases = [rows(n, {"torch": 1.0, "big": 0.5 if m * n > 70_000 else 2.0}, m) for m, n in sizes]
    path = written(tmp_path / "a.csv", cases)
    found = dispatch([path], DispatchOptions())
    choose, _ = emitted(found, tmp_path)
    assert "M * N" in (tmp_path / "dispatch.py").read_text()
    assert choose(1024, 1024, "float32") == "big" and choose(1024, 16, "float32") == "torch"
    assert found.held_out and found.held_out.mean < 0.1
