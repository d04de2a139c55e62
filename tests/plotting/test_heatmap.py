"""The map of winners: who is fastest where, by how much, and where that is a tie."""

from __future__ import annotations

import pytest
from drawing import Draw, caption, case, drawn_row, labels, panels

from kbench.errors import ResultsError
from kbench.results.row import Row


def race(n: int, m: int = 4096, dtype: str = "float32", **ms: float) -> list[Row]:
    return [drawn_row(case(n, m, dtype), name, ms=t) for name, t in ms.items()]


def test_dtypes_are_rows_where_only_one_axis_varies(draw: Draw) -> None:
    rows = [*race(256, dtype="float16", a=1.0, b=2.0), *race(256, a=2.0, b=1.0)]
    [figure] = draw(*rows, kind="heatmap")
    assert panels(figure) == [""]
    assert [tick.get_text() for tick in figure.axes[0].get_yticklabels()] == ["float32", "float16"]
    assert labels(figure.axes[0]) == ["a\n2.00x", "b\n2.00x"]
    [figure] = draw(*rows, kind="heatmap", by=["dtype"])
    assert panels(figure) == ["float16", "float32"]


def test_an_axis_that_goes_with_x_is_a_second_line_of_sizes(draw: Draw) -> None:
    rows = [
        each
        for n in (256, 512, 781, 2048)
        for dtype in ("float16", "float32")
        for each in race(n, 2**20 // n, dtype, a=1.0, b=2.0)
    ]
    [figure] = draw(*rows, kind="heatmap")
    [axes] = figure.axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["256\n4K", "512\n2K", "781\n1342", "2K\n512"]
    assert len(axes.get_yticklabels()) == 2 and len(axes.patches) == 8
    assert "N\nM" in labels(axes)
    assert "M varies with N" in caption(figure)


def test_a_suspect_or_failed_row_wins_nothing(draw: Draw) -> None:
    cheat = drawn_row(case(256), "cheat", ms=1e-6, flags=("suspect",))
    [figure] = draw(cheat, drawn_row(case(256), "broken", status="wrong"), *race(256, a=1.0), kind="heatmap")
    assert labels(figure.axes[0]) == ["a\nalone"]
    with pytest.raises(ResultsError, match="suspect"):
        draw(cheat, kind="heatmap")
