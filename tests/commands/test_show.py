"""`kbench show`, and what a run prints at its end: the answer first, then the standings, then every case."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbench import summary
from kbench.analysis import analyse
from kbench.commands.show import show
from kbench.results.reader import read_results

RESULTS = Path(__file__).resolve().parents[2] / "results" / "h200"
Out = pytest.CaptureFixture[str]


def test_a_sweep_of_a_parameter_shows_the_time_of_every_configuration(
    monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    """25 configurations are too wide for columns; four sizes are not."""
    monkeypatch.setenv("COLUMNS", "80")
    show(str(RESULTS / "softmax-warps.csv"), "", details=False)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["provider", "N=1024", "N=4096", "N=8192", "N=16384"] in lines
    assert ["triton-row[num_warps=4,num_stages=1]", "13.92", "37.92~", "71.39~", "165.5"] in lines


def test_a_long_table_is_cut_on_a_terminal_and_says_how_to_see_the_rest(
    monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    softmax = analyse(read_results(RESULTS / "softmax.csv").rows, "torch-native")

    def printed() -> list[str]:
        summary.print_summary(softmax, most_cases=30, more="kbench show x.csv")
        return capsys.readouterr().out.splitlines()

    count = len(softmax.cases)
    assert sum(line.lstrip()[:1].isdigit() for line in printed()) == count > 60
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes it for a terminal
    shown = printed()
    assert sum(line.lstrip()[:1].isdigit() for line in shown) == 30
    assert f"... and {count - 30} more: kbench show x.csv" in shown
