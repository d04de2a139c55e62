"""The picture of a history: what a reader sees in it."""

from __future__ import annotations

import warnings

import pytest
from drawing import legend
from history.nights import Night, Of, judged
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
