"""Marks of rows without a value or with a suspect one: hollow points, question marks, marks in the provider's colour."""

from __future__ import annotations

import pytest
from drawing import NS, Draw, case, curves, drawn_row, legend, marks, sweep
from matplotlib.colors import to_hex

from kbench.plotting.style import LIGHT, MARK_SHAPES, QUESTION_MARK, styles
from kbench.results.vocabulary import Status


@pytest.mark.parametrize("flag", ["host-bound", "overhead-bound"])
def test_points_that_say_little_about_the_kernel_are_hollow_and_the_key_says_why(draw: Draw, flag: str) -> None:
    rows = [drawn_row(case(n), flags=(flag, "noisy") if n < 1000 else ()) for n in NS]
    [figure] = draw(*rows)
    solid, hollow = marks(figure.axes[0], styles(["triton"], LIGHT)["triton"].marker)
    assert list(hollow.get_xdata()) == [256, 512] and list(solid.get_xdata()) == [1024, 2048, 4096]
    assert to_hex(hollow.get_markerfacecolor()) == "#ffffff" != to_hex(solid.get_markerfacecolor())
    assert legend(figure) == [flag]


@pytest.mark.parametrize("statuses", [["wrong"], ["oom", "crashed"], ["unsupported"]])
def test_a_row_without_a_time_is_a_mark_on_the_axis_in_its_colour(draw: Draw, statuses: list[str]) -> None:
    rows = [drawn_row(case(n), "cuda", status="ok" if n < 1000 else statuses[-(n > 2048)]) for n in NS]
    [figure] = draw(*rows, *sweep("triton"))
    axes = figure.axes[0]
    of_cuda = [line for line in axes.lines if line.get_marker() == MARK_SHAPES[Status(statuses[0])]]
    assert [size for mark in of_cuda for size in mark.get_xdata()] == [1024, 2048, 4096]
    mark = of_cuda[-1]
    assert mark.get_color() == marks(axes, "o")[0].get_color()  # cuda's
    height = axes.transData.inverted().transform(mark.get_transform().transform((1024, mark.get_ydata()[0])))[1]  # type: ignore[index]
    assert axes.get_ylim()[0] < height < 0
    assert ", ".join(statuses) in legend(figure)
    assert min(axes.get_yticks()) == 0


def test_a_suspect_value_is_a_question_mark_and_no_part_of_the_line_or_the_scale(draw: Draw) -> None:
    cheat = [drawn_row(case(n), "cheat", gbps=1e6, flags=("suspect",)) for n in NS]
    [figure] = draw(*cheat, *sweep("triton"))
    axes = figure.axes[0]
    [questions] = [line for line in axes.lines if line.get_marker() is QUESTION_MARK]
    assert list(questions.get_xdata()) == list(NS)
    assert max(questions.get_ydata()) < axes.get_ylim()[1] < 3000  # type: ignore[type-var]
    assert curves(axes) == [[(n, 2000.0) for n in NS]]
    assert {"cheat", "suspect: implausible time"} <= set(legend(figure))
