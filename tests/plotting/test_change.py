"""Pictures of a comparison: the change of every row with its interval, the margin, and the verdict as mark and colour."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from drawing import NS, caption, case, drawn_row, labels, legend, save, title
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kbench.analysis.files import load_sources
from kbench.plotting import Choices, plot
from kbench.results.row import Row


def timed(provider: str, n: int, ms: float, m: int = 4096, dtype: str = "float32", **fields: object) -> list[Row]:
    """Three sessions, 0.1 % apart, with copy controls that show the machine's drift."""
    return [
        drawn_row(case(n, m, dtype), provider, ms=ms * (1 + 0.001 * session), session=session, **fields)
        for session in range(3)
    ]


def drawn(old: list[Row], new: list[Row], folder: Path, **choices: object) -> list[Figure]:
    files = [save(folder / "old.csv", old), save(folder / "new.csv", new)]
    return [picture.figure for picture in plot(load_sources(files), Choices(kind="change", **choices))]  # type: ignore[arg-type]


def changes(axes: Axes) -> dict[str, list[tuple[float, float]]]:
    """The points of a panel by their marker: place along x and the change in percent."""
    return {
        str(line.get_marker()): [
            (float(x), round(100 * math.expm1(float(y)), 1))
            for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)  # type: ignore[arg-type]
        ]
        for line in axes.lines
        if line.get_linestyle() == "None"
    }


def test_a_sweep_shows_every_change_and_its_verdict(tmp_path: Path) -> None:
    factors = dict(zip(NS, (1.05, 1.0, 1.0, 0.9, 1.0), strict=True))
    old = [row for n in NS for row in timed("triton", n, 1.0)]
    new = [row for n, factor in factors.items() for row in timed("triton", n, factor)]
    [figure] = drawn(old, new, tmp_path)
    [axes] = figure.axes
    points_by_mark = changes(axes)
    assert points_by_mark["^"] == [(256, 5.0)] and points_by_mark["v"] == [(2048, -10.0)]
    assert points_by_mark["o"] == [(512, 0.0), (1024, 0.0), (4096, 0.0)]
    assert legend(figure) == ["1 slower", "1 faster", "3 same"]
    assert title(figure) == "new against old · softmax · M=4096 · triton · float32"
    assert "slower" in axes.get_ylabel().split("→")[1] and axes.get_xlabel() == "N"
    assert "shaded: the margin, 2 %" in caption(figure) and "95 % intervals" in caption(figure)
    spans = [path.vertices[:, 1] for lines in axes.collections for path in lines.get_paths()]
    assert len(spans) == len(NS) and all(low < high for low, high in spans)
    [band] = axes.patches
    margin = band.get_extents().transformed(axes.transData.inverted()).intervaly
    assert list(margin) == pytest.approx([-math.log(1.02), math.log(1.02)])


def test_rows_without_a_change_have_a_mark_in_the_strip_below(tmp_path: Path) -> None:
    old = [row for n in NS for row in timed("triton", n, 1.0)]
    new = [row for n in NS[1:4] for row in timed("triton", n, 1.0)]
    new += [drawn_row(case(256), "triton", session=session, status="wrong") for session in range(3)]
    [figure] = drawn(old, new, tmp_path)
    points_by_mark = changes(figure.axes[0])
    assert [x for x, _ in points_by_mark["(6, 2, 0)"]] == [256] and [x for x, _ in points_by_mark["x"]] == [4096]
    assert legend(figure) == ["1 failed", "1 missing", "3 same"]


def test_a_wild_change_presses_nothing_flat(tmp_path: Path) -> None:
    ns = range(256, 256 * 21, 256)
    old = [row for n in ns for row in timed("triton", n, 1.0)]
    new = [row for n in ns for row in timed("triton", n, 46.0 if n == 512 else 1.0 + n / 1e6)]
    [figure] = drawn(old, new, tmp_path)
    assert [text for text in labels(figure.axes[0]) if text] == ["+4500%"]
    assert math.exp(figure.axes[0].get_ylim()[1]) < 1.5
    assert "beyond the axis" in caption(figure)


def test_an_interval_that_goes_on_beyond_the_axis_ends_in_an_arrow(tmp_path: Path) -> None:
    def scattered(*times: float) -> list[Row]:
        return [drawn_row(case(256), "triton", ms=ms, session=session) for session, ms in enumerate(times)]

    [figure] = drawn(scattered(1.0, 1.2, 0.9), scattered(1.01, 0.9, 1.2), tmp_path)
    arrows = [text.xy[0] for text in figure.axes[0].texts if text.arrow_patch]  # type: ignore[attr-defined]
    assert arrows == list(figure.axes[0].get_xlim())
    assert "arrows: the interval goes on beyond the axis" in caption(figure)
    [figure] = drawn(timed("triton", 256, 1.0), timed("triton", 256, 1.1), tmp_path)
    assert "arrows" not in caption(figure)
