"""`kbench show`, and what a run prints at its end: the answer first, then the standings, then every case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kbench import summary
from kbench.analysis import analyse
from kbench.commands.show import show
from kbench.results.case import Case
from kbench.results.row import Row
from kbench.results.vocabulary import Role

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


def test_a_sweep_of_a_parameter_shows_the_time_of_every_configuration(
    monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    """25 configurations are too wide for columns; four sizes are not."""
    monkeypatch.setenv("COLUMNS", "80")
    assert show(str(RESULTS / "softmax-warps.csv"), "", details=False) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["provider", "N=1024", "N=4096", "N=8192", "N=16384"] in lines
    assert ["triton-row[num_warps=4,num_stages=1]", "12.32", "36.35~", "69.73~", "150.8"] in lines


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
