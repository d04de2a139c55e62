"""Several files in one picture: same provider, same colour; the line says which file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from drawing import H200, NS, caption, case, curves, drawn_row, labels, legend, panels, save, sweep, title
from matplotlib.figure import Figure

from kbench.analysis.files import load_sources
from kbench.errors import UsageError
from kbench.plotting import Choices, plot, write_pictures


def draw_files(*files: Path | str, where: str = "", **choices: object) -> list[Figure]:
    return [picture.figure for picture in plot(load_sources(files, where), Choices(**choices))]  # type: ignore[arg-type]


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """Two runs. The later one is faster, used another timer, and has one more provider."""
    old = save(tmp_path / "old.csv", sweep("triton", "cuda", gbps=1000.0))
    new = save(tmp_path / "new.csv", [*sweep("triton", "cuda", timer="graph"), *sweep("quack", timer="graph")])
    old.with_suffix(".env.json").write_text(json.dumps(H200))
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


def test_labels_can_be_given(two: tuple[Path, Path]) -> None:
    [figure] = draw_files(f"before={two[0]}", f"after={two[1]}")
    assert legend(figure)[-2:] == ["before", "after"]


def test_a_file_whose_name_has_an_equals_sign(tmp_path: Path) -> None:
    path = save(tmp_path / "a=b.csv", sweep("triton"))
    [source] = load_sources([str(path)])
    assert source.label == "a=b"


@pytest.mark.slow
def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    paths = [save(tmp_path / folder / "softmax.csv", sweep("triton")) for folder in ("one", "two")]
    [figure] = draw_files(*paths)
    assert legend(figure)[-2:] == ["one/softmax", "two/softmax"]
    with pytest.raises(UsageError, match=r"'one/softmax'.*old=a\.csv"):
        load_sources([paths[0], paths[0]])


def test_bars_of_files_stand_together(two: tuple[Path, Path]) -> None:
    figures = draw_files(*two, kind="bars", where="N=256")
    names = [tick.get_text() for tick in figures[0].axes[0].get_yticklabels()]
    assert names == ["cuda · new", "quack · new", "triton · new", "cuda · old", "triton · old"]
    assert legend(figures[0]) == []


def test_equal_bars_are_in_the_order_of_the_files(tmp_path: Path) -> None:
    paths = [save(tmp_path / f"{name}.csv", sweep("triton", ns=[256])) for name in ("z", "a")]
    [figure] = draw_files(*paths)
    assert [tick.get_text() for tick in figure.axes[0].get_yticklabels()] == ["triton · z", "triton · a"]


def test_a_heatmap_has_a_panel_per_file_and_lines_may_have(two: tuple[Path, Path]) -> None:
    assert panels(draw_files(*two, kind="heatmap")[0]) == ["new", "old"]
    assert panels(draw_files(*two, by=["file"])[0]) == ["new", "old"]


def test_a_file_that_a_where_leaves_nothing_of_is_left_out(two: tuple[Path, Path]) -> None:
    [figure] = draw_files(*two, where="provider=quack")
    assert len(curves(figure.axes[0])) == 1
    with pytest.raises(UsageError, match="no row has provider=nobody"):
        draw_files(*two, where="provider=nobody")


def test_different_operators_are_panels(tmp_path: Path) -> None:
    gelu = save(tmp_path / "gelu.csv", [drawn_row(case(n, operator="gelu")) for n in NS])
    softmax = save(tmp_path / "softmax.csv", sweep("triton"))
    assert panels(draw_files(gelu, softmax)[0]) == ["gelu", "softmax"]


def test_the_file_is_named_after_all_of_them(two: tuple[Path, Path]) -> None:
    [path] = write_pictures(two, formats=["svg"])
    assert path == two[0].parent / "old-vs-new_gbps.svg"
