"""Checks that show little: what zeros would pass, what a constant passes, state between calls, and a baseline that is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from promises.outside import QUICK, Ended, Kbench, MadeOnce, Rows, Write, keep, kept, providers_of, run_kbench
from promises.outside import write_results as write_rows

BLANK = """
import torch

from kbench import Operator, Tensor

blank = Operator(
    "blank", axes=("M", "N"), inputs={"x": Tensor("M", "N")}, outputs={"y": Tensor("M", "N")},
    reference=lambda x: torch.zeros_like(x), rows="M",
)


@blank.provider("fill")
def fill(x):
    return torch.zeros_like(x)


first = True


@blank.provider("late")
def late(x):
    global first
    first, was_first = False, first
    return torch.ones_like(x) if was_first else torch.zeros_like(x)
"""
SWEEP = """
operator: blank
sweep: {M: [4, 8], N: [64], dtype: [float32]}
providers: [fill, late]
plugins: [blank.py]
"""
CONSTANT = """
import torch

import kbench


@kbench.operator("blank").provider("constant")
def constant(x):
    return torch.full_like(x, 0.0)
"""


@pytest.fixture
def blank(made_once: MadeOnce) -> Path:
    """A run of an operator whose output does not depend on its input, and a judgement of a provider of it."""

    def make(folder: Path) -> None:
        for name, text in {"blank.py": BLANK, "blank.yaml": SWEEP, "mine.py": CONSTANT}.items():
            (folder / name).write_text(text)
        keep(run_kbench("run", "blank.yaml", *QUICK, "--no-plot", folder=folder), folder, "run")
        judge = ("judge", "mine.py", "--against", "blank.yaml", "--baseline", "fill", *QUICK, "--shapes", 0, "--json")
        keep(run_kbench(*judge, folder=folder), folder, "judged")

    return made_once("blank", make)


def of(folder: Path, provider: str) -> Rows:
    return [row for row in providers_of(folder / "results" / "blank.csv") if row["provider"] == provider]


def test_an_operator_whose_output_is_the_same_for_each_draw_is_noted_and_measured(blank: Path) -> None:
    for row in of(blank, "fill"):
        assert row["status"] == "ok" and "weak-check" in row["flags"].split(";")
        assert "constant" in row["reason"] and "each draw" in row["reason"]
    assert "2 weak-check" in kept(blank, "run").out


def test_check_notes_such_an_operator_and_does_not_fail(blank: Path, kbench: Kbench) -> None:
    ended = kbench("check", blank / "blank.yaml", "--only", "fill")
    assert ended.code == 0
    assert any("M=4" in line and "constant" in line for line in ended.err.splitlines())


def test_judge_does_not_trust_a_provider_that_a_constant_could_replace(blank: Path) -> None:
    ended = kept(blank, "judged")
    [verdict] = json.loads(ended.out)["providers"]
    assert ended.code == 1 and verdict["correct"] is True and verdict["trusted"] is False
    assert {doubt["flag"] for doubt in verdict["doubts"]} == {"weak-check"}
    assert all("constant" in doubt["reason"] for doubt in verdict["doubts"])


def test_a_provider_that_is_wrong_in_the_first_call_of_a_process_is_wrong_in_each_case(blank: Path) -> None:
    assert [row["status"] for row in of(blank, "late")] == ["wrong", "wrong"]
    assert all("first call" in row["reason"] for row in of(blank, "late"))


def test_a_tolerance_that_zeros_would_pass_is_refused_with_the_place_of_the_operator(
    kbench: Kbench, write: Write
) -> None:
    write("blank.py", BLANK.replace('rows="M"', "tolerance=1e9"))
    write("blank.yaml", SWEEP)
    ended = kbench("run", "blank.yaml", *QUICK, "--no-plot")
    assert ended.code == 2 and "blank.py:" in ended.err and "tolerance 1e+09" in ended.err


def timed(provider: str, columns: int, session: int, ms: float) -> dict[str, object]:
    rounds = ";".join([str(ms)] * 3)
    return {"provider": provider, "N": columns, "session": session, "ms": ms, "round_ms": rounds, "speedup": 0.02 / ms}


@pytest.fixture
def wrong_later(folder: Path) -> Path:
    """Results of two sessions. The baseline `torch-native` is wrong in the second, for N=2048."""
    rows = [
        timed(provider, columns, session, ms)
        for session in (0, 1)
        for columns in (1024, 2048)
        for provider, ms in {"torch-native": 0.02, "mine": 0.01, "other": 0.0125}.items()
        if (provider, columns, session) != ("torch-native", 2048, 1)
    ]
    wrong = {"provider": "torch-native", "N": 2048, "session": 1, "status": "wrong", "reason": "1 of 2 elements wrong"}
    return write_rows(folder / "softmax.csv", [*rows, wrong])


def test_no_speedup_is_shown_over_a_baseline_that_is_wrong_and_the_headline_counts_the_cases(
    wrong_later: Path, kbench: Kbench
) -> None:
    shown = kbench("show", wrong_later, "--details").out
    assert "torch-native is wrong in 1 of 2 cases" in shown and "(geomean of 1 case)" in shown
    [times, details] = [line for line in shown.splitlines() if line.split()[:1] == ["2048"]]
    assert "wrong" in times.split() and "2.00x" not in details


def test_no_picture_and_no_page_has_a_speedup_over_a_baseline_that_is_wrong(wrong_later: Path, kbench: Kbench) -> None:
    assert kbench("report", wrong_later, "-o", "page.html").code == 0
    page = (wrong_later.parent / "page.html").read_text()
    assert "torch-native is wrong in 1 of 2 cases" in page and "2.00x" in page
    there = ("--where", "N=2048")
    ended: Ended = kbench("plot", wrong_later, "--metric", "speedup", *there)
    assert ended.code != 0 and "speedup" in ended.err
    assert kbench("plot", wrong_later, "--metric", "speedup", "--where", "N=1024").code == 0
    assert kbench("report", wrong_later, *there, "-o", "there.html").code == 0
    assert "2.00x" not in (wrong_later.parent / "there.html").read_text()
