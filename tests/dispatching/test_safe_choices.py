"""`kbench dispatch`: where a provider may not be chosen."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from decisions import NS, emitted, rows, written

from kbench.dispatching.dispatch import DispatchOptions, dispatch
from kbench.errors import ResultsError


@pytest.mark.parametrize("outcome", ["unsupported", "wrong", "error", "suspect"])
def test_a_provider_is_not_chosen_where_it_did_not_run(tmp_path: Path, outcome: str) -> None:
    def fast(n: int) -> Any:
        return n / 2000 if n <= 65536 else outcome

    path = written(tmp_path / "a.csv", [rows(n, {"torch": n / 1000, "fast": fast(n)}, m) for n in NS for m in (8, 64)])
    found = dispatch([path], DispatchOptions())
    choose = emitted(found, tmp_path)
    assert {choose(64, n, "float32") for n in NS if n <= 65536} == {"fast"}
    assert {choose(m, n, "float32") for n in range(65537, 400_000, 97) for m in (8, 30, 64)} == {"torch"}
    assert choose(64, 100, "float32") == choose(64, 10**9, "float32") == "torch"  # outside of where it was seen to run
    assert found.held_out and all(math.isfinite(loss.regret) for loss in found.held_out)


def test_a_failure_amid_the_sizes_is_a_hole_for_all_shapes_around_it(tmp_path: Path) -> None:
    speeds = {n: "wrong" if n == 4096 else n / 2000 for n in NS}
    path = written(
        tmp_path / "a.csv", [rows(n, {"torch": n / 1000, "fast": speeds[n]}, m) for n in NS for m in (8, 64)]
    )
    choose = emitted(dispatch([path], DispatchOptions(holdout=0)), tmp_path)
    assert {choose(64, n, "float32") for n in range(2049, 8192)} == {"torch"}
    assert choose(64, 2048, "float32") == choose(64, 8192, "float32") == "fast"


@pytest.mark.parametrize("both", [True, False])
def test_a_provider_is_not_chosen_for_a_dtype_with_which_it_never_ran(tmp_path: Path, both: bool) -> None:
    half = [rows(n, {"torch": 1.0, "fast": 0.5}, m, "float16") for n in (256, 512, 1024) for m in (8, 64)]
    none = {"torch": 1.0, "fast": "unsupported"}
    beside = [
        rows(n, none, m, dtype) for n in (64, 128, 4096, 8192) for m in (8, 64) for dtype in ("float16", "float32")
    ]
    path = written(tmp_path / "a.csv", half + [case for case in beside if case[0].case.dtype == "float32" or both])
    choose = emitted(dispatch([path], DispatchOptions(holdout=0)), tmp_path)
    assert choose(64, 512, "float32") == "torch"
    assert both or choose(64, 512, "float16") == "fast"


def test_a_provider_that_failed_in_one_of_the_sessions_is_not_chosen(tmp_path: Path) -> None:
    first = [rows(n, {"torch": 1.0, "fast": 0.5}) for n in NS]
    second = [rows(n, {"torch": 1.0, "fast": "crashed" if n == 128 else 0.5}, session=1) for n in NS]
    found = dispatch([written(tmp_path / "a.csv", first + second)], DispatchOptions(holdout=0))
    choose = emitted(found, tmp_path)
    assert [choose(64, n, "float32") for n in (128, 1024, 262144)] == ["torch", "fast", "fast"]


def test_without_a_provider_that_runs_everywhere_nothing_is_written(tmp_path: Path) -> None:
    cases = [
        rows(n, {"torch": 1.0 if n < 1000 else "oom", "fast": 1.0 if n > 200 else "oom"}) for n in (128, 512, 4096)
    ]
    with pytest.raises(
        ResultsError, match=r"no provider has a trusted time in every case.* has no trusted time at M=64 N="
    ):
        dispatch(
            [written(tmp_path / "a.csv", [[r for r in case if r.provider != "repeat"] for case in cases])],
            DispatchOptions(),
        )
