"""The picture of a history: what a reader sees in it."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from common import Kbench
from drawing import legend, title
from history.nights import Night, Of, history, judged
from matplotlib.figure import Figure

from kbench.plotting import plot_history


def drawn(nights: int, of: Of = lambda number: Night(), theme: str = "light") -> list[Figure]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib warns of a layout that does not fit
        figures = [picture.figure for picture in plot_history(judged(nights, of, everything=True), theme)]
        for figure in figures:
            figure.canvas.draw()
    return figures


def caption(figure: Figure) -> str:
    return str(figure.get_supxlabel())


def numbers(figure: Figure) -> list[set[str]]:
    """The numbers of the events above each panel."""
    return [{text.get_text() for text in axes.texts if text.get_text().isdecimal()} for axes in figure.axes]


def step(number: int) -> Night:
    torch = {"torch": "2.10.0" if number >= 12 else "2.9.0"}
    return Night(factors={"mine": 1.1 if number >= 12 else 1.0}, environment={"packages": torch})


def test_an_event_has_a_number_in_each_panel_and_a_line_below() -> None:
    [figure] = drawn(20, step)
    assert title(figure) == "softmax · M=4096 · float32 · NVIDIA H200"
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["N=256", "N=512", "N=1024"]
    assert numbers(figure) == [{"1"}] * 3
    lines = caption(figure).split("\n")
    assert lines[0].startswith("20 runs from 2026-09-01 to 2026-09-20 · times relative to the copy control · noise ")
    assert lines[-1].startswith("1: 2026-09-13 · 3 slower (+") and lines[-1].endswith(
        " · mine · stack: torch 2.9.0 → 2.10.0"
    )
    assert legend(figure) == ["mine", "torch"]
    times = [text.get_text() for text in figure.axes[0].texts if text.get_text().endswith(" µs")]
    assert sorted(float(text.split()[0]) for text in times) == pytest.approx([10, 11], rel=0.02)  # at the ends of lines


def test_a_run_in_which_a_provider_failed_has_a_mark() -> None:
    [figure] = drawn(8, lambda number: Night(statuses={"mine": "wrong"} if number > 5 else {}))
    assert legend(figure)[-1] == "run in which it failed"
    assert "3 failed" in caption(figure).split("\n")[-1]


@pytest.mark.slow
def test_more_cases_than_fit_are_counted_and_those_that_changed_are_drawn() -> None:
    sizes = tuple(range(64, 84))
    [figure] = drawn(8, lambda number: Night(sizes=sizes, fails_at=81 if number == 7 else None))
    assert len(figure.axes) == 12 and "12 of 20 cases are drawn: those with the largest changes" in caption(figure)
    assert "N=81" in {axes.get_title(loc="left") for axes in figure.axes}


@pytest.mark.slow
def test_each_machine_has_a_picture_of_its_own(kbench: Kbench, tmp_path: Path) -> None:
    devices = ("host 0", "host-0", "host/1")
    history(tmp_path, 3, lambda number: Night(fields={"device": devices[number]}))
    done = kbench("history", "plot", "history", "--format", "png")
    names = ["host-0", "host-0-2", "host-1"]
    assert done.stdout.split() == [f"history/history_softmax-{name}.png" for name in names]
    assert kbench("history", "check", "history").returncode == 0  # the pictures are no part of the history
