"""Pictures of a comparison: the change of every row with its interval, the margin, and the verdict as mark and colour."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from drawing import NS, caption, case, drawn_row, labels, legend, panels, save, title
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from kbench.analysis.files import load_sources
from kbench.errors import ResultsError, UsageError
from kbench.plotting import Choices, plot, terminal_charts, write_pictures
from kbench.plotting.style.theme import DARK
from kbench.results.case import Case
from kbench.results.row import Row

Times = dict[str, float]


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
    old = [each for n in NS for each in timed("triton", n, 1.0)]
    new = [each for n, factor in factors.items() for each in timed("triton", n, factor)]
    [figure] = drawn(old, new, tmp_path)
    [axes] = figure.axes
    found = changes(axes)
    assert found["^"] == [(256, 5.0)] and found["v"] == [(2048, -10.0)]
    assert found["o"] == [(512, 0.0), (1024, 0.0), (4096, 0.0)]
    assert legend(figure) == ["1 slower", "1 faster", "3 same"]
    assert title(figure) == "new against old · softmax · M=4096 · triton · float32"
    assert "slower" in axes.get_ylabel().split("→")[1] and axes.get_xlabel() == "N"
    assert "shaded: the margin, 2 %" in caption(figure) and "95 % intervals" in caption(figure)


def test_every_interval_is_drawn_and_the_margin_is_a_band(tmp_path: Path) -> None:
    old, new = ([each for n in NS for each in timed("triton", n, ms)] for ms in (1.0, 1.05))
    [figure] = drawn(old, new, tmp_path, margin=0.01)
    [axes] = figure.axes
    spans = [path.vertices[:, 1] for lines in axes.collections for path in lines.get_paths()]
    assert len(spans) == len(NS) and all(low < math.log(1.05) < high for low, high in spans)
    [band] = axes.patches
    low, high = band.get_extents().transformed(axes.transData.inverted()).intervaly
    assert (low, high) == (pytest.approx(-math.log(1.01)), pytest.approx(math.log(1.01)))


def test_of_speeds_more_is_faster(tmp_path: Path) -> None:
    old, new = ([each for n in NS for each in timed("triton", n, 1.0, gbps=g)] for g in (1000.0, 900.0))
    [figure] = drawn(old, new, tmp_path, metric="gbps")
    assert set(changes(figure.axes[0])) == {"v"} and legend(figure) == ["5 slower"]
    assert "slower" in figure.axes[0].get_ylabel().split("←")[0]


def test_providers_and_dtypes_are_panels_on_one_scale(tmp_path: Path) -> None:
    def rows(factor: float) -> list[Row]:
        return [
            each
            for n in NS
            for name in ("row[num_warps=16]", "row[num_warps=2]", "torch", "cuda")
            for dtype in ("float16", "float32")
            for each in timed(name, n, factor, dtype=dtype)
        ]

    [figure] = drawn(rows(1.0), rows(1.1), tmp_path)
    names = ["cuda", "row[num_warps=2]", "row[num_warps=16]", "torch"]
    assert panels(figure) == [f"{name} · {dtype}" for name in names for dtype in ("float16", "float32")]
    assert len({axes.get_ylim() for axes in figure.axes}) == 1


def test_rows_without_a_change_have_a_mark_in_the_strip_below(tmp_path: Path) -> None:
    old = [each for n in NS for each in timed("triton", n, 1.0)]
    new = [each for n in NS[1:4] for each in timed("triton", n, 1.0)]
    new += [drawn_row(case(256), "triton", session=session, status="wrong") for session in range(3)]
    [figure] = drawn(old, new, tmp_path)
    found = changes(figure.axes[0])
    assert [x for x, _ in found["(6, 2, 0)"]] == [256] and [x for x, _ in found["x"]] == [4096]
    assert legend(figure) == ["1 failed", "1 missing", "3 same"]


def test_one_row_is_a_line_with_its_numbers(tmp_path: Path) -> None:
    [figure] = drawn(timed("triton", 256, 1.0), timed("triton", 256, 1.05), tmp_path)
    [axes] = figure.axes
    assert labels(axes) == ["slower  +5.0 %"]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["triton"]


def test_without_a_sweep_the_worst_row_is_on_top(tmp_path: Path) -> None:
    factors = {"a": 1.0, "b": 1.3, "c": 0.8, "gone": 1.0}
    old = [each for name in factors for each in timed(name, 256, 1.0)]
    new = [each for name in "abc" for each in timed(name, 256, factors[name])]
    [figure] = drawn(old, new, tmp_path)
    [axes] = figure.axes
    assert axes.get_ylim()[0] > axes.get_ylim()[1]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["b", "a", "c", "gone"]
    assert labels(axes) == ["slower  +30.0 %", "same  0.0 %", "faster  \N{MINUS SIGN}20.0 %", "missing"]


def test_hundreds_of_rows_without_a_sweep_are_one_picture(tmp_path: Path) -> None:
    old, new = (
        [Row(Case("op", {}, "float32"), f"p{i}", ms=1 + change * i / 1000, device="x", timer="t") for i in range(400)]
        for change in (0, 1)
    )
    files = [save(tmp_path / f"{name}.csv", rows, ()) for name, rows in (("old", old), ("new", new))]
    [picture] = plot(load_sources(files), Choices(kind="change"))
    assert sum(len(found) for found in changes(picture.figure.axes[0]).values()) == 400
    assert "first: p399 (+39.9 %), p398 (+39.8 %)" in caption(picture.figure)


def test_a_wild_change_presses_nothing_flat(tmp_path: Path) -> None:
    ns = range(256, 256 * 21, 256)
    old = [each for n in ns for each in timed("triton", n, 1.0)]
    new = [each for n in ns for each in timed("triton", n, 46.0 if n == 512 else 1.0 + n / 1e6)]
    [figure] = drawn(old, new, tmp_path)
    assert [text for text in labels(figure.axes[0]) if text] == ["+4500.0 %"]
    assert math.exp(figure.axes[0].get_ylim()[1]) < 1.5
    assert "beyond the axis" in caption(figure)


def test_names_of_files_and_colours_of_a_dark_picture(tmp_path: Path) -> None:
    files = [save(tmp_path / f"{n}.csv", [e for k in NS for e in timed("triton", k, 1.0)]) for n in ("old", "new")]
    assert [path.name for path in write_pictures(files, Choices(kind="change"), formats=["pdf"])] == [
        "old-vs-new_change.pdf"
    ]
    [picture] = plot(load_sources(files), Choices(kind="change", theme="dark"))
    assert to_hex(picture.figure.axes[0].get_facecolor()) == DARK.background.lower()


@pytest.mark.parametrize("count", [pytest.param(24, marks=pytest.mark.slow), 25, 100])
def test_more_providers_than_there_is_room_for_panels_are_one_picture_in_order(tmp_path: Path, count: int) -> None:
    sides = ([drawn_row(case(n), f"p{i}", ms=ms) for n in NS[:3] for i in range(count)] for ms in (1.0, 1.2))
    [figure] = drawn(*sides, tmp_path)
    assert len(figure.axes) == (24 if count == 24 else 1)
    assert legend(figure) == [f"{3 * count} slower"]


@pytest.mark.parametrize("axis", ["word", "effect", "kind", "unclear"])
def test_an_axis_may_be_called_like_a_column_of_the_picture(tmp_path: Path, axis: str) -> None:
    rows = [Row(Case("op", {axis: n}, "float32"), "a", ms=1.0, device="x", timer="t", cache="cold") for n in NS]
    files = [save(tmp_path / f"{name}.csv", rows, (axis,)) for name in ("old", "new")]
    [picture] = plot(load_sources(files), Choices(kind="change"))
    assert picture.figure.axes[0].get_xlabel() == f"axis_{axis}"


def test_long_names_and_wild_numbers_are_a_picture_without_a_warning(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    name = "z" * 300
    old = [each for n in NS for each in timed(name, n, 1e-3)]
    new = [each for n in NS for each in timed(name, n, 1e6 if n == 512 else 1e-3)]
    files = [save(tmp_path / f"{'y' * 200}{i}.csv", rows) for i, rows in enumerate((old, new))]
    assert len(write_pictures(files, Choices(kind="change"), formats=["png"])) == 1
    assert not [str(warning.message) for warning in recwarn if warning.category is UserWarning]  # matplotlib's


def test_what_cannot_be_drawn_is_one_line(tmp_path: Path) -> None:
    old = [each for n in NS for each in timed("triton", n, 1.0)]
    with pytest.raises(ResultsError, match=r"no change to draw: .*kbench compare"):
        drawn(old, [each for n in NS for each in timed("other", n, 1.0)], tmp_path)
    with pytest.raises(UsageError, match=r"--x.*'K'.*M, N"):
        drawn(old, old, tmp_path, x="K")
    with pytest.raises(UsageError, match="kbench compare"):
        list(terminal_charts(load_sources([tmp_path / "old.csv"]), Choices(kind="change"), 80, plain=True))
    with pytest.raises(UsageError, match="a comparison has two files"):
        list(plot(load_sources([tmp_path / "old.csv"]), Choices(kind="change")))


def test_an_interval_that_goes_on_beyond_the_axis_ends_in_an_arrow(tmp_path: Path) -> None:
    def scattered(*times: float) -> list[Row]:
        return [drawn_row(case(256), "triton", ms=ms, session=session) for session, ms in enumerate(times)]

    [figure] = drawn(scattered(1.0, 1.2, 0.9), scattered(1.01, 0.9, 1.2), tmp_path)
    arrows = [text.xy[0] for text in figure.axes[0].texts if text.arrow_patch]  # type: ignore[attr-defined]
    assert arrows == list(figure.axes[0].get_xlim())
    assert "arrows: the interval goes on beyond the axis" in caption(figure)
    [figure] = drawn(timed("triton", 256, 1.0), timed("triton", 256, 1.1), tmp_path)
    assert "arrows" not in caption(figure)
