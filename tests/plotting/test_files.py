"""Files: their names, their bytes, and one-line errors where there is nothing to draw."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import matplotlib
import pytest
from drawing import NS, caption, case, copies, drawn_row, save, sweep

from kbench.analysis.files import load_sources
from kbench.errors import ResultsError, UsageError
from kbench.plotting import PICTURE_FORMATS, Choices, plot, write_pictures


@pytest.mark.slow
def test_names_of_files(tmp_path: Path) -> None:
    path = save(tmp_path / "softmax.csv", sweep("a", "b"))
    named = {
        "softmax_gbps": Choices(),
        "softmax_copy_fraction": Choices("copy_fraction"),
        "softmax_gbps_dark": Choices(theme="dark"),
        "softmax_winners": Choices(kind="heatmap"),
    }
    save(path, [drawn_row(case(n), name, copy_fraction=0.5) for n in NS for name in "ab"])
    for stem, choices in named.items():
        assert [picture.name for picture in write_pictures(path, choices)] == [f"{stem}.png", f"{stem}.svg"]


@pytest.mark.slow
def test_bytes_depend_on_the_csv_alone(tmp_path: Path) -> None:
    kinds = [Choices(theme="dark"), Choices(kind="heatmap")]
    rows = [*sweep("triton", "cuda", "mine$", flags=("overhead-bound",)), *sweep("bad", status="wrong"), *copies()]
    path, formats = save(tmp_path / "softmax.csv", rows), list(PICTURE_FORMATS)
    first = [picture for choices in kinds for picture in write_pictures(path, choices, formats=formats)]
    random.Random(0).shuffle(rows)
    time.sleep(1.1)  # a moment in the metadata would show
    path, deep = save(tmp_path / "again" / "softmax.csv", rows), tmp_path / "deep" / "er"
    again = [picture for choices in kinds for picture in write_pictures(path, choices, deep, formats=formats)]
    assert {path.parent for path in again} == {deep}
    assert len({path.name for path in first}) == len(kinds) * len(formats)
    for one, other in zip(first, again, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name


def test_panels_stand_where_no_process_puts_them_elsewhere(tmp_path: Path) -> None:
    """The last digits of matplotlib's layout depend on PYTHONHASHSEED, and names inside an SVG on those digits."""
    path = save(tmp_path / "softmax.csv", [drawn_row(case(n, m)) for n in NS[:3] for m in (1, 2)])
    [picture] = plot(load_sources([path]), Choices(kind="bars"))
    picture.figure.draw_without_rendering()
    places = [place for axes in picture.figure.axes for place in axes.get_position(original=True).bounds]
    assert len(places) == 24 and all(place == pytest.approx(round(place, 6), abs=1e-12) for place in places)


def test_the_readers_own_matplotlib_settings_change_nothing(tmp_path: Path) -> None:
    path = save(tmp_path / "softmax.csv", sweep("triton"))
    before = [picture.read_bytes() for picture in write_pictures(path)]
    with matplotlib.rc_context({"font.size": 30, "savefig.dpi": 30, "xtick.direction": "in"}):
        assert [picture.read_bytes() for picture in write_pictures(path)] == before


def test_nothing_ok_is_one_line_with_the_counts(tmp_path: Path) -> None:
    rows = [drawn_row(case(n), status=status) for n, status in ((1, "wrong"), (2, "wrong"), (3, "crashed"))]
    path = save(tmp_path / "a.csv", [*rows, *copies()])
    for kind in ("lines", "bars", "heatmap"):
        with pytest.raises(ResultsError) as caught:
            write_pictures(path, Choices(kind=kind))
        assert "1 crashed, 2 wrong" in str(caught.value) and str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
    assert list(tmp_path.glob("*.png")) == []


def test_only_controls_or_no_rows_at_all(tmp_path: Path) -> None:
    for rows in ([], copies()):
        with pytest.raises(ResultsError, match=r"no rows of providers at all\); run the sweep again"):
            write_pictures(save(tmp_path / "a.csv", rows))


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (Choices("watts"), r"watts.*gbps, ms, speedup, copy_fraction, tflops, sol, ulp"),
        (Choices(kind="pie"), r"pie.*lines, bars, heatmap, change"),
        (Choices(theme="pink"), r"pink.*light, dark"),
    ],
    ids=repr,
)
def test_a_choice_that_there_is_not_names_those_that_there_are(tmp_path: Path, choices: Choices, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        write_pictures(save(tmp_path / "a.csv", sweep("triton")), choices)


def test_a_metric_that_no_row_has(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"no row has tflops to plot \(5 ok\); choose another --metric"):
        write_pictures(save(tmp_path / "a.csv", sweep("triton")), Choices("tflops"))


def test_an_unknown_format(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gif.*png, svg, pdf"):
        write_pictures(save(tmp_path / "a.csv", sweep("triton")), formats=("gif",))


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    path = save(tmp_path / "a.csv", sweep("triton"))
    with pytest.raises(ResultsError, match="cannot be written"):
        write_pictures(path, out_dir=path)


def test_an_incomplete_file_says_so_in_the_picture(tmp_path: Path) -> None:
    path = save(tmp_path / "a.csv", sweep("triton"))
    path.write_text(path.read_text()[:-80])
    [picture] = plot(load_sources([path]), Choices())
    assert "incomplete" in caption(picture.figure)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lines", "bars", "heatmap"])
@pytest.mark.parametrize(
    "rows",
    [
        sweep("only"),
        sweep("only", ns=[1]),
        sweep("a", "b", ns=[256]),
        sweep(*(f"provider-{i}" for i in range(40)), ns=NS[:2]),
        sweep("_a", "a$b$", "<b>", "x[y=1]", "z" * 300),
    ],
    ids=["one provider", "N = 1", "one case", "40 providers", "odd names"],
)
def test_ugly_files_are_pictures(tmp_path: Path, rows: list[object], kind: str) -> None:
    path = save(tmp_path / "ugly.csv", rows)  # type: ignore[arg-type]
    pictures = write_pictures(path, Choices(kind=kind), formats=["svg"])
    assert pictures and all(picture.stat().st_size > 5000 for picture in pictures)


@pytest.mark.slow
def test_drawing_needs_neither_torch_nor_pyplot_nor_plotext() -> None:
    code = (
        "import sys, kbench.plotting, kbench.plotting.terminal;"
        "print({'torch', 'triton', 'matplotlib.pyplot', 'plotext'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ)
    assert done.stdout == "set()\n"


def test_a_name_in_a_script_that_the_font_lacks_draws_without_a_warning(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    write_pictures(save(tmp_path / "softmax.csv", sweep("a", "火")), Choices(), formats=["png"])
    assert not [str(each.message) for each in recwarn if "Glyph" in str(each.message)]
