"""`kbench show`, and what a run prints at its end: the answer first, then the standings, then every case."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kbench import summary
from kbench.analysis import analyse
from kbench.commands.show import show
from kbench.execute.writer import Writer
from kbench.results.case import Case
from kbench.results.row import Row
from kbench.results.vocabulary import Role, Status

RESULTS = Path(__file__).resolve().parents[2] / "results" / "h200"
Out = pytest.CaptureFixture[str]


def row(provider: str, ms: float, n: int = 256, dtype: str = "float32", **more: Any) -> Row:
    role = {"role": Role.CONTROL} if provider == "repeat" else {}
    measured = {"round_ms": (ms,) * 5, "gbps": 1.0, "copy_fraction": 0.5, "timer": "do_bench", "cache": "cold"}
    return Row(Case("softmax", {"M": 64, "N": n}, dtype), provider, ms=ms, **measured, **role, **more)


def sweep(*ns: int, dtypes: tuple[str, ...] = ("float32",), **speedups: float) -> list[Row]:
    rows = []
    for dtype in dtypes:
        for n in ns:
            ms = n / 1000
            rows += [
                row(name, ms / speed, n, dtype, speedup=speed) for name, speed in {"torch": 1.0, **speedups}.items()
            ]
            rows.append(row("repeat", ms, n, dtype, speedup=1.0))
    return rows


def printed(rows: list[Row], out: Out, **how: Any) -> list[str]:
    summary.print_summary(analyse(rows, "torch"), **how)
    return out.readouterr().out.splitlines()


def test_ties_and_what_cannot_be_told_are_marked_apart() -> None:
    tie = sweep(256, cuda=1.001)
    unclear = [
        r if r.provider != "cuda" else replace(row("cuda", 0.25), round_ms=(0.2, 0.3, 0.25, 0.2, 0.3)) for r in tie
    ]
    for rows, mark in ((tie, "~"), (unclear, "?")):
        table = summary.times_table(analyse(rows, "torch"))
        assert [cell[-1] for cell in table.rows[0][-2:]] == [mark, mark]
        assert mark in table.title


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("name", ["softmax-peers", "softmax-warps"])
def test_tables_fit_the_width_that_is_asked_for(
    name: str, width: int, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    """With COLUMNS in a pipe. In less than 80 columns nothing is cropped either."""
    monkeypatch.setenv("COLUMNS", str(width))
    assert show(str(RESULTS / f"{name}.csv"), "", details=False) == 0
    text = capsys.readouterr().out
    if width >= 80:
        assert max(map(len, text.splitlines()[:-1])) <= width  # the last line has the path
    assert " torch-n " not in text


def test_a_sweep_of_a_parameter_shows_the_time_of_every_configuration(
    monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    """25 configurations are too wide for columns; four sizes are not."""
    monkeypatch.setenv("COLUMNS", "80")
    assert show(str(RESULTS / "softmax-warps.csv"), "", details=False) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["provider", "N=1024", "N=4096", "N=8192", "N=16384"] in lines
    assert ["triton-row[num_warps=4,num_stages=1]", "12.32", "36.35~", "69.73~", "150.8"] in lines


def test_cases_come_in_the_order_of_their_size_whoever_finished_first() -> None:
    rows = sweep(64, 128, 1024, 4096, cuda=2.0)
    random.Random(0).shuffle(rows)
    table = summary.times_table(analyse(rows, "torch"))
    assert [line[0] for line in table.rows] == ["64", "128", "1024", "4096"]


def test_a_long_table_is_cut_on_a_terminal_and_says_how_to_see_the_rest(
    monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    rows = sweep(*range(100, 200), cuda=2.0)
    piped = printed(rows, capsys, most_cases=30, more="kbench show x.csv")
    assert sum(line.lstrip()[:1].isdigit() for line in piped) == 100
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes it for a terminal
    shown = printed(rows, capsys, most_cases=30, more="kbench show x.csv")
    assert sum(line.lstrip()[:1].isdigit() for line in shown) == 30
    assert "... and 70 more: kbench show x.csv" in shown


def test_a_provider_that_is_missing_in_two_sessions_of_a_case_is_missing_in_one_case() -> None:
    case = Case("softmax", {"N": 64}, "float32")
    rows = [Row(case, "cuda", session=n, status=Status.UNAVAILABLE, reason="no device") for n in (0, 1)]
    assert summary.left_out(rows) == ["cuda: unavailable (1 case): no device"]


def test_an_operator_that_counts_its_operations_has_tflops_and_sol_for_gbps(capsys: Out) -> None:
    rows = [replace(r, tflops=0.1 / (r.ms or 1.0), sol=0.2 / (r.ms or 1.0)) for r in sweep(256, 512, cuda=2.0)]
    lines = [line.split() for line in printed(rows, capsys, detailed=True)]
    assert ["fastest", "tied", "cases", "best", "TFLOP/s", "sol"] in [line[4:] for line in lines]
    assert ["cuda", "2.00x", "2/0/0", "2", "0", "2", "0.781", "1.17"] in lines
    assert ["N", "fastest", "us", "TFLOP/s", "sol", "vs", "torch"] in lines
    assert ["512", "cuda", "256.0", "0.391", "0.78", "2.00x"] in lines


def test_a_file_with_controls_only_says_so(tmp_path: Path, capsys: Out) -> None:
    path = tmp_path / "a.csv"
    Writer(path, ("M", "N")).write([row("repeat", 1.0)])
    show(path)
    out = capsys.readouterr().out
    assert out.split("\n\n")[0].strip() == "No provider was timed."
    assert "time in us" not in out and f"no rows of providers: {path}" in out
