"""`kbench dispatch`: what makes a branch, where a provider may not be chosen, and what is refused."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from common import ROOT
from making import write_rows

from kbench.dispatching.dispatch import Dispatch, dispatch
from kbench.results.case import Case
from kbench.results.row import Row
from kbench.results.vocabulary import Role

H200 = ROOT / "results" / "h200"
SOFTMAX, GELU = ([H200 / f"{name}-peers.csv", H200 / "short" / f"{name}-peers.csv"] for name in ("softmax", "gelu"))

NS = [2**k for k in range(7, 19)]


def rows(n: int, speeds: dict[str, Any], m: int = 64, dtype: str = "float32", **more: Any) -> list[Row]:
    """The rows of a case: a time in ms or a status for each provider, and a control that repeats torch."""
    case = Case(more.pop("operator", "softmax"), {"M": m, "N": n, **more.pop("axes", {})}, dtype)
    common = {"timer": "do_bench", "cache": "cold", "device": "NVIDIA H200", **more}
    made = []
    for provider, ms in {**speeds, "repeat": speeds["torch"]}.items():
        if isinstance(ms, str) and ms != "suspect":
            made.append(Row(case, provider, status=ms, reason="declines", **common))  # type: ignore[arg-type]
            continue
        flags = ("suspect",) if ms == "suspect" else ()
        time = 0.001 if ms == "suspect" else float(ms)
        role = {"role": Role.CONTROL} if provider == "repeat" else {}
        if not isinstance(speeds["torch"], str):  # as a run writes it: that of the baseline is 1
            common["speedup"] = speeds["torch"] / time
        made.append(Row(case, provider, ms=time, round_ms=(time,) * 5, flags=flags, **common, **role))
    return made


def written(path: Path, cases: list[list[Row]], axes: tuple[str, ...] = ("M", "N")) -> Path:
    return write_rows(path, itertools.chain(*cases), axes)


def emitted(dispatched: Dispatch, folder: Path) -> Callable[..., str]:
    """The function of the written Python file."""
    path = folder / "dispatch.py"
    dispatched.write(path)
    names: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    choose: Callable[..., str] = names["choose"]
    return choose


# ---- what makes a branch


def test_a_difference_below_the_margin_makes_no_branch_in_any_number_of_cases(tmp_path: Path) -> None:
    cases = [rows(n, {"torch": 1.0, "new": 0.96 if n < 4096 else 1.5}, m) for n in NS for m in range(1, 9)]
    path = written(tmp_path / "a.csv", cases)
    assert dispatch([path], margin=0.05, holdout=0).decision.providers == ["torch"]
    assert dispatch([path], margin=0.03, holdout=0).decision.providers == ["torch", "new"]


def test_an_unclear_difference_makes_no_branch_and_decides_only_where_nothing_is_clear(tmp_path: Path) -> None:
    cases = [rows(n, {"torch": 1.0, "zen": 1.5}) for n in NS]
    for row in itertools.chain(*cases):
        if row.provider == "zen" and row.case.N > 4096:  # mostly faster, with rounds that say otherwise
            row.ms, row.round_ms = 0.8, (0.8, 1.3, 0.7, 1.4, 0.8)
    assert dispatch([written(tmp_path / "a.csv", cases)]).decision.providers == ["torch"]
    assert dispatch([written(tmp_path / "b.csv", cases[6:])]).decision.providers == ["zen"]


def test_a_product_of_sizes_is_used_where_it_decides(tmp_path: Path) -> None:
    sizes = [(m, n) for m in (16, 64, 256, 1024, 4096) for n in (16, 64, 256, 1024, 4096)]
    cases = [rows(n, {"torch": 1.0, "big": 0.5 if m * n > 70_000 else 2.0}, m) for m, n in sizes]
    path = written(tmp_path / "a.csv", cases)
    dispatched = dispatch([path])
    choose = emitted(dispatched, tmp_path)
    assert "M * N" in (tmp_path / "dispatch.py").read_text()
    assert choose(1024, 1024, "float32") == "big" and choose(1024, 16, "float32") == "torch"
    assert dispatched.held_out and fmean(loss.regret for loss in dispatched.held_out) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("files", [SOFTMAX, GELU, [H200 / "softmax-backward.csv"]])
def test_the_regret_is_small_and_the_file_picks_what_the_decision_says(files: list[Path], tmp_path: Path) -> None:
    dispatched = dispatch(files)
    for losses in (dispatched.held_out, dispatched.measured):
        assert fmean(loss.regret for loss in losses) < 0.01
    choose = emitted(dispatched, tmp_path)
    assert [choose(**point) for point in dispatched.evidence.points] == [loss.provider for loss in dispatched.measured]


# ---- where a provider may not be chosen


@pytest.mark.parametrize("outcome", ["unsupported", "wrong", "error", "suspect"])
def test_a_provider_is_not_chosen_where_it_did_not_run(tmp_path: Path, outcome: str) -> None:
    def fast(n: int) -> Any:
        return n / 2000 if n <= 65536 else outcome

    path = written(tmp_path / "a.csv", [rows(n, {"torch": n / 1000, "fast": fast(n)}, m) for n in NS for m in (8, 64)])
    dispatched = dispatch([path])
    choose = emitted(dispatched, tmp_path)
    assert {choose(64, n, "float32") for n in NS if n <= 65536} == {"fast"}
    assert {choose(m, n, "float32") for n in range(65537, 400_000, 97) for m in (8, 30, 64)} == {"torch"}
    assert choose(64, 100, "float32") == choose(64, 10**9, "float32") == "torch"  # outside of where it was seen to run
    assert dispatched.held_out and all(math.isfinite(loss.regret) for loss in dispatched.held_out)
