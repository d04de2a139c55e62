"""Bars of one case: sorted, with intervals, and with the status of providers without a time."""

from __future__ import annotations

from typing import Any

from drawing import Draw, caption, case, drawn_row, labels
from matplotlib.colors import to_hex


def names(figure: Any, panel: int = 0) -> list[str]:
    """The names of the bars from top to bottom."""
    axes = figure.axes[panel]
    return [tick.get_text() for tick in axes.get_yticklabels()][:: 1 if axes.yaxis_inverted() else -1]


def test_parameters_are_bars_of_their_own(draw: Draw) -> None:
    rows = [drawn_row(case(256), "row", f"w={w}", gbps=float(w)) for w in range(1, 13)]
    [figure] = draw(*rows, kind="bars")
    assert names(figure) == [f"w={w}" for w in range(12, 0, -1)]
    assert "configurations named only by parameters are those of row" in caption(figure)
    assert len({to_hex(bar.get_facecolor()) for bar in figure.axes[0].patches}) == 1  # a colour is a provider


def test_whoever_has_no_time_stands_below_with_the_reason(draw: Draw) -> None:
    rows = [drawn_row(case(256), status, status=status) for status in ("wrong", "unsupported", "oom")]
    cheat = drawn_row(case(256), "cheat", gbps=123456.0, flags=("suspect",))
    [figure] = draw(*rows, cheat, drawn_row(case(256)))
    assert names(figure) == ["triton", "cheat", "oom", "unsupported", "wrong"]
    assert labels(figure.axes[0]) == ["2000", "suspect: 123456", "oom", "unsupported", "wrong"]
    assert figure.axes[0].get_xlim()[1] < 3000
