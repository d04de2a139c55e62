"""Several files in one picture: same provider, same colour; the line says which file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from drawing import H200, caption, curves, labels, legend, panels, save, sweep, title
from matplotlib.figure import Figure

from kbench.analysis.files import load_sources
from kbench.errors import UsageError
from kbench.plotting import Choices, plot
from kbench.results.case import Case


def draw_files(*files: Path | str, where: str = "", **choices: object) -> list[Figure]:
    return [picture.figure for picture in plot(load_sources(files, where), Choices(**choices))]  # type: ignore[arg-type]


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """Two runs. The later one is faster, used another timer, and has one more provider."""
    old = save(tmp_path / "old.csv", sweep("triton", "cuda", gbps=1000.0), environment=H200)
    new = save(tmp_path / "new.csv", [*sweep("triton", "cuda", timer="graph"), *sweep("quack", timer="graph")])
    return old, new


def test_a_colour_is_a_provider_and_a_line_style_a_file(two: tuple[Path, Path]) -> None:
    [figure] = draw_files(*two)
    assert len(curves(figure.axes[0])) == 5
    lines = [line for line in figure.axes[0].lines if line.get_linestyle() != "None" and len(line.get_xdata()) > 2]
    looks = {(line.get_color(), line.get_linestyle()) for line in lines}
    assert len({colour for colour, _ in looks}) == 3
    assert sorted(style for _, style in looks) == ["-", "-", "--", "--", "--"]
    assert legend(figure) == ["cuda", "quack", "triton", "old", "new"]
    assert labels(figure.axes[0]) == []


def test_the_caption_says_what_each_was_measured_on(two: tuple[Path, Path]) -> None:
    [figure] = draw_files(*two)
    assert "old: NVIDIA H200 · driver 580.1 · torch 2.11 · triton 3.6 · 2026-11-20" in caption(figure)
    assert "new: NVIDIA H200 · 2026-11-20" in caption(figure)
    assert "timer do_bench/graph" in caption(figure)
    assert title(figure) == "softmax · float32 · M=4096"


def test_a_heatmap_has_a_panel_per_file_and_lines_may_have(two: tuple[Path, Path]) -> None:
    assert panels(draw_files(*two, kind="heatmap")[0]) == ["new", "old"]
    assert panels(draw_files(*two, by=["file"])[0]) == ["new", "old"]


def test_a_map_needs_its_axis_in_every_file(two: tuple[Path, Path], tmp_path: Path) -> None:
    other = save(
        tmp_path / "other.csv",
        [replace(row, case=Case("loss", {"V": row.case.N}, "float32")) for row in sweep("a")],
        ("V",),
    )
    with pytest.raises(UsageError, match=r"other\.csv has no axis 'N': choose another one with --x"):
        draw_files(two[0], other, kind="heatmap", x="N")
