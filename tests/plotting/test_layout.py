"""The layout of pictures: no text lies over another, leaves the figure or stands on a curve, and panels keep their width."""

from __future__ import annotations

import itertools

import pytest
from drawing import Draw, case, drawn_row, legend, points, sweep
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from kbench.results.case import Case
from kbench.results.row import Row

LONG = "block_m=128,block_n=256,block_k=64,num_warps=8"
SHORT_NAME = "triton[block_m=128,…k_k=64,num_warps=8]"
"""What pictures print for `triton` with the parameters LONG."""


def written(figure: Figure) -> dict[Text, Bbox]:
    """Every text that a reader sees, with its box in pixels. Ticks beyond the end of an axis are not drawn."""
    figure.draw_without_rendering()
    hidden = {
        label
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for tick in axis.get_major_ticks()
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
        for label in (tick.label1, tick.label2)
    }
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    return {text: Text.get_window_extent(text) for text in texts if text not in hidden}  # type: ignore[attr-defined, misc]


def assert_tidy(figure: Figure) -> None:
    """No text overlaps another or leaves the figure."""
    boxes = written(figure)
    for (one, a), (other, b) in itertools.combinations(boxes.items(), 2):
        apart = a.x1 <= b.x0 + 1 or b.x1 <= a.x0 + 1 or a.y1 <= b.y0 + 1 or b.y1 <= a.y0 + 1
        assert apart, f"{one.get_text()!r} lies over {other.get_text()!r}"
    for text, box in boxes.items():
        inside = box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.width and box.y1 <= figure.bbox.height
        assert inside, f"{text.get_text()!r} leaves the figure"


def product(m: int, k: int, mode: str = "forward", **speeds: float) -> list[Row]:
    """A row of each of three configurations of a matrix product."""
    wanted = {"torch-native": 700.0, "torch-compile": 600.0, "triton": 300.0, "tuned": 500.0} | speeds
    return [
        drawn_row(
            Case("matmul", {"M": m, "N": 4096, "K": k, "mode": mode}, "bfloat16"),
            "triton" if name == "tuned" else name,
            LONG if name == "tuned" else "",
            gbps=speed * m / 4096,
            gbps_p20=None,
            gbps_p80=None,
        )
        for name, speed in wanted.items()
    ]


def bar_colours(figure: Figure, panel: int) -> list[str]:
    """The colours of the bars of a panel from top to bottom."""
    return [to_hex(bar.get_facecolor()) for bar in figure.axes[panel].patches]


def test_panels_without_a_sweep_are_bars_in_a_picture_of_their_own(draw: Draw) -> None:
    curves = [row for k in (4096, 14336) for m in (256, 1024, 4096) for row in product(m, k)]
    rows = [*curves, *product(4096, 4096, "backward"), *product(4096, 4096, "full")]
    lines, bars = draw(*rows, axes=("M", "N", "K", "mode"))
    assert len(lines.axes) == len(bars.axes) == 2
    colours = [{to_hex(line.get_color()) for line in axes.lines if len(points(line)) == 3} for axes in lines.axes]
    assert [len(of_panel) for of_panel in colours] == [4, 4]
    for panel in (0, 1):
        names = ["".join(tick.get_text().split()) for tick in bars.axes[panel].get_yticklabels()]
        assert names == ["torch-native", "torch-compile", SHORT_NAME, "triton"]  # the fastest first
        *others, tuned, triton = bar_colours(bars, panel)
        assert tuned == triton and len({*others, triton}) == 3  # a colour for each provider
    for figure in (lines, bars):
        assert_tidy(figure)
        assert min(axes.get_position().width for axes in figure.axes) > 0.2


@pytest.mark.parametrize(("name", "curves"), [("provider", 18), ("provider", 40), ("p", 40)])
def test_a_legend_of_many_curves_is_inside_the_picture(draw: Draw, name: str, curves: int) -> None:
    [figure] = draw(*sweep(*(f"{name}{number}" for number in range(curves))))
    assert_tidy(figure)
    assert len(legend(figure)) == curves


@pytest.mark.parametrize("speed", [0.0189, 1.0, 60000.0])
def test_numbers_at_the_ticks_of_bars_do_not_touch(draw: Draw, speed: float) -> None:
    rows = [drawn_row(case(n), name, gbps=speed, gbps_p20=None, gbps_p80=None) for n in (1, 2) for name in "ab"]
    [figure] = draw(*rows, kind="bars")
    assert_tidy(figure)


@pytest.mark.parametrize("heights", [(2, 1, 1), (3, 1)])
def test_cells_of_all_heatmaps_are_equally_high_and_hold_their_text(draw: Draw, heights: tuple[int, ...]) -> None:
    rows = [
        drawn_row(Case("softmax", {"M": m, "N": n, "K": k}, "float32"), "a-name-of-25-characters--", ms=n / 1e5)
        for k, high in enumerate(heights)
        for m in range(1, high + 1)
        for n in (256, 512, 1024, 2048)
    ]
    [figure] = draw(*rows, kind="heatmap", by=["K"], axes=("M", "N", "K"))
    assert_tidy(figure)
    cells = [axes.get_window_extent().height / high for axes, high in zip(figure.axes, heights, strict=True)]
    assert max(cells) - min(cells) < 1
