"""Pictures: what is drawn, what is said about what is not, and which files come out."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kbench import table
from kbench.execute.writer import Writer
from kbench.palette import COLOURS, styles
from kbench.plotting import COPY, plot, write
from kbench.results import CONTROL, Case, Row
from kbench.table import TableError

Curve = tuple[str, str]


def row(case: Case, provider: str = "triton", params: str = "", **fields: object) -> Row:
    ms = case.N / 1e5
    measured = {"ms": ms, "ms_p20": ms * 0.9, "ms_p80": ms * 1.2, "gbps": 2e3, "gbps_p20": 1800.0, "gbps_p80": 2200.0}
    if "status" in fields:
        measured = {"reason": "it is so"}  # type: ignore[dict-item]
    constant = {
        "timer": "do_bench",
        "cache": "cold",
        "device": "NVIDIA H200",
        "started_at": "2026-11-20T10:00:00+00:00",
    }
    return Row(case, provider, params, **{**constant, **measured, **fields})  # type: ignore[arg-type]


def case(n: int, m: int = 4096, dtype: str = "float32") -> Case:
    return Case("softmax", {"M": m, "N": n}, dtype)


def save(path: Path, rows: Iterable[Row]) -> Path:
    writer = Writer(path, ("M", "N"))
    writer.write(list(rows))
    return path


@pytest.fixture
def draw(tmp_path: Path) -> Callable[..., list[Figure]]:
    def draw(*rows: Row, metric: str = "gbps") -> list[Figure]:
        path = save(tmp_path / "softmax.csv", rows)
        return [picture.figure for picture in plot(table.read(path), metric)]

    return draw


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()] if figure.legends else []


def lines(axes: Axes) -> list[list[tuple[float, float]]]:
    return [list(zip(line.get_xdata(), line.get_ydata(), strict=True)) for line in axes.lines]  # type: ignore[arg-type]


def title(figure: Figure) -> str:
    return str(figure.get_suptitle())


def caption(figure: Figure) -> str:
    return " ".join(str(figure.get_supxlabel()).split())


def test_a_line_per_provider_with_the_last_value_deciding_the_legend(draw: Callable[..., list[Figure]]) -> None:
    speeds = {"slow": (300.0, 100.0), "fast": (100.0, 300.0)}
    [figure] = draw(
        *(row(case(n), name, gbps=speed[i]) for i, n in enumerate((256, 512)) for name, speed in speeds.items())
    )
    assert legend(figure) == ["fast", "slow"]
    assert sorted(lines(figure.axes[0])) == [[(256, 100), (512, 300)], [(256, 300), (512, 100)]]
    assert title(figure) == "softmax · float32 · M=4096 · NVIDIA H200"
    assert figure.axes[0].get_xlabel() == "N" and figure.axes[0].get_ylabel() == "GB/s"


def test_the_copy_control_is_the_grey_ceiling_and_no_other_control_is_drawn(draw: Callable[..., list[Figure]]) -> None:
    speeds = {"copy": 4000.0, "empty": 1.0, "repeat": 2.0}
    controls = [row(case(n), name, role=CONTROL, gbps=speed) for n in (256, 512) for name, speed in speeds.items()]
    [figure] = draw(*controls, *(row(case(n), gbps=3.0) for n in (256, 512)))
    assert legend(figure) == [COPY, "triton"]
    assert lines(figure.axes[0]) == [[(256, 4000), (512, 4000)], [(256, 3), (512, 3)]]


def test_a_provider_named_copy_is_not_mixed_with_the_control(draw: Callable[..., list[Figure]]) -> None:
    rows = [row(case(n), "copy", role=role) for n in (256, 512) for role in ("provider", CONTROL)]
    assert sorted(legend(draw(*rows)[0])) == ["copy", COPY]


def test_names_that_matplotlib_would_hide_or_typeset(draw: Callable[..., list[Figure]], tmp_path: Path) -> None:
    rows = [row(case(n), name) for n in (256, 512) for name in ("_mine", "a$^$b", "naïve")]
    [figure] = draw(*rows)
    assert sorted(legend(figure)) == sorted(["_mine", "a$^$b", "naïve"])
    assert write(tmp_path / "softmax.csv")


def test_sessions_are_one_line_with_the_widest_band(draw: Callable[..., list[Figure]]) -> None:
    rows = [
        row(case(n), session=s, ms=ms, ms_p20=ms - 1, ms_p80=ms + s)
        for n in (8, 16)
        for s, ms in enumerate((5.0, 9.0, 6.0))
    ]
    [figure] = draw(*rows, metric="ms")
    assert lines(figure.axes[0]) == [[(8, 6.0), (16, 6.0)]]
    band = figure.axes[0].collections[0].get_paths()[0].get_extents()
    assert (band.y0, band.y1) == (4.0, 10.0)
    assert "median of 3 sessions" in caption(figure)


@pytest.mark.parametrize("field", ["device", "timer", "cache"])
def test_no_line_joins_two_ways_of_measuring(draw: Callable[..., list[Figure]], field: str) -> None:
    rows = [row(case(n), **{field: f"{field}-{n % 3}"}) for n in (256, 512, 1024, 2048)]
    [figure] = draw(*rows)
    assert [len(line) for axes in figure.axes for line in lines(axes)] == [2, 2]
    assert [axes.get_title(loc="left") for axes in figure.axes] == [f"{field}-1", f"{field}-2"]


def test_a_gap_where_a_provider_has_no_value(draw: Callable[..., list[Figure]]) -> None:
    ns = [2**k for k in range(8, 13)]
    wrong = [row(case(n), "cuda", status="wrong") if n == 1024 else row(case(n), "cuda") for n in ns]
    [figure] = draw(*wrong, *(row(case(n)) for n in ns))
    gaps = [[n for n, y in line if math.isnan(y)] for line in lines(figure.axes[0])]
    assert sorted(gaps) == [[], [1024]]


def test_a_point_between_two_gaps_is_marked(draw: Callable[..., list[Figure]]) -> None:
    ns = range(128, 128 * 60, 128)
    lonely = [row(case(n), "cuda", **({"status": "timeout"} if n == 128 * 32 or n > 128 * 33 else {})) for n in ns]
    [figure] = draw(*lonely, *(row(case(n)) for n in ns))
    marked = [[line.get_xdata()[i] for i in line.get_markevery()] for line in figure.axes[0].lines]  # type: ignore
    assert [xs for xs in marked if xs[-1] == 128 * 33]
    assert all(len(xs) < 20 for xs in marked)


def test_what_is_not_drawn_is_said(draw: Callable[..., list[Figure]]) -> None:
    [figure] = draw(
        *(row(case(n), flags=("noisy",)) for n in (256, 512)),
        *(row(case(n), "liger", status="unavailable") for n in (256, 512)),
        row(case(256), "cuda", "num_warps=4", status="wrong"),
        row(case(512), "lost", gbps=None),
        row(case(512), "impossible", gbps=math.inf),
    )
    text = caption(figure)
    assert "timer do_bench · cache cold · 2026-11-20" in text
    assert "3 of 7 rows were not ok: 2 unavailable (liger); 1 wrong (cuda[num_warps=4])" in text
    assert "2 ok rows have no gbps" in text
    assert "noisy 2" in text


@pytest.mark.parametrize(
    ("sizes", "scale"),
    [
        ([128 * i for i in range(2, 100)], "linear"),
        ([781, *(128 * i for i in range(2, 100))], "linear"),
        ([2**k for k in range(8, 19)], "log"),
        ([1024, 4096, 8192], "log"),
        ([1000, 10_000, 100_000], "log"),
        ([1000, 2000, 3000], "linear"),
        ([0, 1000, 100_000], "linear"),
    ],
)
def test_the_x_scale_follows_the_sweep(draw: Callable[..., list[Figure]], sizes: list[int], scale: str) -> None:
    [figure] = draw(*(row(case(n), ms=1.0) for n in sizes))
    assert figure.axes[0].get_xscale() == scale


def test_times_far_apart_are_on_a_logarithmic_scale_with_readable_ticks(draw: Callable[..., list[Figure]]) -> None:
    [figure] = draw(*(row(case(n), ms=n / 1e4) for n in (256, 2560, 25600)), metric="ms")
    figure.draw_without_rendering()
    axes = figure.axes[0]
    assert axes.get_yscale() == "log"
    assert "0.1" in [label.get_text() for label in axes.get_yticklabels()]


def test_each_panel_of_times_has_the_scale_it_needs(draw: Callable[..., list[Figure]]) -> None:
    rows = [row(case(n, m), ms=1 + n * m / 1e5) for m in (1, 4096) for n in (256, 2560, 25600)]
    [figure] = draw(*rows, metric="ms")
    assert [axes.get_yscale() for axes in figure.axes] == ["linear", "log"]


def test_up_to_four_configurations_are_panels_of_one_figure_on_one_scale(draw: Callable[..., list[Figure]]) -> None:
    rows = [row(case(n, m), gbps=2000.0 + m) for m in (16, 4096) for n in (256, 512)]
    [figure] = draw(*rows)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["M=16", "M=4096"]
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()


def test_a_panel_that_one_scale_would_flatten_has_its_own(draw: Callable[..., list[Figure]]) -> None:
    [figure] = draw(*[row(case(n, m), gbps=m, gbps_p20=m, gbps_p80=m) for m in (16, 4096) for n in (256, 512)])
    assert figure.axes[0].get_ylim()[1] < 20 < figure.axes[1].get_ylim()[1]


@pytest.mark.parametrize(
    ("sizes", "scale"),
    [([256, 1024, 4096, 12672], "log"), (range(256, 12673, 128), "linear"), ([1000, 2000, 3000], "linear")],
)
def test_the_axis_suits_the_sweep(draw: Callable[..., list[Figure]], sizes: list[int], scale: str) -> None:
    [figure] = draw(*[row(case(n), gbps=1.0) for n in sizes])
    assert figure.axes[0].get_xscale() == scale


def test_one_case_is_bars_sorted_by_speed_with_values(draw: Callable[..., list[Figure]]) -> None:
    speeds = {"naive": 4.0, "best": 3900.0, "middle": 1700.0}
    rows = [row(case(32768), name, gbps=speed, gbps_p20=None, gbps_p80=None) for name, speed in speeds.items()]
    [figure] = draw(*rows)
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["naive", "middle", "best"]  # bottom to top
    assert [text.get_text() for text in axes.texts] == ["4", "1700", "3900"]
    assert "N=32768" in title(figure)
    [figure] = draw(*(row(case(32768), name, ms=speed) for name, speed in speeds.items()), metric="ms")
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["best", "middle", "naive"]


def test_one_shape_beside_a_sweep_is_bars_that_name_it(draw: Callable[..., list[Figure]]) -> None:
    [figure] = draw(row(case(781, 1823)), *(row(case(n)) for n in (256, 512, 768)))
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["M=1823 · N=781", "M=4096"]


def parameter_sweep(ns: Iterable[int]) -> list[Row]:
    params = [f"num_warps={w},num_stages={s}" for w in (1, 2, 4, 8, 16, 32) for s in (1, 2, 3, 4)]
    return [row(case(n), *curve) for n in ns for curve in [("triton-row", p) for p in params] + [("torch-native", "")]]


def test_a_wide_parameter_sweep_runs_along_the_parameter(draw: Callable[..., list[Figure]]) -> None:
    [figure] = draw(*parameter_sweep((1024, 4096, 8192, 16384)))
    assert [axes.get_title(loc="left") for axes in figure.axes] == [f"N={n}" for n in (1024, 4096, 8192, 16384)]
    assert figure.axes[0].get_xlabel() == "num_warps"
    stages = [f"triton-row[num_warps=*,num_stages={s}]" for s in (1, 2, 3, 4)]
    assert sorted(legend(figure)) == ["torch-native", *stages]
    assert [x for x, _ in lines(figure.axes[0])[1]] == [1, 2, 4, 8, 16, 32]


def test_a_parameters_default_beside_its_sweep_is_a_level_of_its_own(draw: Callable[..., list[Figure]]) -> None:
    rows = [row(case(n), "row", f"num_warps={w}") for n in (256, 512) for w in (*range(1, 10), None)]
    [figure] = draw(*rows, *(row(case(n), "row") for n in (256, 512)))
    assert sorted(legend(figure)) == ["row", "row[num_warps=*]", "row[num_warps=None]"]


def test_a_long_sweep_stays_on_its_axis_whatever_the_parameters(draw: Callable[..., list[Figure]]) -> None:
    [figure] = draw(*parameter_sweep(range(256, 256 * 12, 256)))
    assert figure.axes[0].get_xlabel() == "N"
    assert len(legend(figure)) == 25


def test_no_two_curves_look_alike_and_colours_are_told_apart_by_the_colour_blind() -> None:
    names = [str(i) for i in range(4 * len(COLOURS))]
    assert len(set(styles(names).values())) == len(names)
    # Machado, Oliveira and Fernandes (2009), severity 1.0: what deuteranopes and protanopes see of linear RGB
    deutan = ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881))
    protan = ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998))
    normal = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
    for matrix in (normal, deutan, protan):
        seen = [lab(colour, matrix) for colour in COLOURS]
        assert min(math.dist(a, b) for i, a in enumerate(seen) for b in seen[:i]) > 10


def lab(colour: str, matrix: Iterable[Iterable[float]]) -> tuple[float, float, float]:
    """CIELAB (D65) of a colour as seen through a matrix on linear RGB."""
    rgb = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
    seen = [min(1.0, max(0.0, sum(a * b for a, b in zip(row, linear, strict=True)))) for row in matrix]
    to_xyz = ((0.4339, 0.3762, 0.1899), (0.2126, 0.7152, 0.0722), (0.0178, 0.1098, 0.8729))  # rows sum to 1: white is 1
    x, y, z = (sum(a * b for a, b in zip(row, seen, strict=True)) for row in to_xyz)
    fx, fy, fz = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def test_file_names_and_bytes_depend_on_the_csv_alone(tmp_path: Path) -> None:
    rows = [row(case(n), name) for n in (256, 512) for name in ("triton", "cuda")]
    first = write(save(tmp_path / "softmax.csv", rows))
    assert [path.name for path in first] == ["softmax_gbps.png", "softmax_gbps.svg"]
    assert {path.parent for path in first} == {tmp_path}
    random.Random(0).shuffle(rows)
    again = write(save(tmp_path / "again" / "softmax.csv", rows), out_dir=tmp_path / "deep" / "er")
    for one, other in zip(first, again, strict=True):
        assert other.parent == tmp_path / "deep" / "er"
        assert one.read_bytes() == other.read_bytes()


def test_the_readers_own_matplotlib_settings_change_nothing(tmp_path: Path) -> None:
    import matplotlib

    path = save(tmp_path / "softmax.csv", [row(case(n)) for n in (256, 512)])
    before = [picture.read_bytes() for picture in write(path)]
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "black", "savefig.dpi": 30}):
        assert [picture.read_bytes() for picture in write(path)] == before


def test_more_than_four_configurations_are_files_named_by_what_they_hold(tmp_path: Path) -> None:
    rows = [row(case(n, m, d)) for n in (256, 512, 1024, 2048) for m in (1, 2, 3) for d in ("float16", "bfloat16")]
    names = [path.name for path in write(save(tmp_path / "large.csv", rows), "ms", formats=("png",))]
    assert names == ["large_ms_bfloat16.png", "large_ms_float16.png"]
    rows = [row(case(n, m)) for n in range(1, 9) for m in (1, 2, 3, 4, 5)]
    names = [path.name for path in write(save(tmp_path / "five.csv", rows), formats=("svg",))]
    assert names == [f"five_gbps_M{m}.svg" for m in (1, 2, 3, 4, 5)]


def test_odd_words_make_plain_file_names(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "odd.csv", ("N", "mode"))
    modes = ["a/b", "../c", "d e", "f:g", "h"]
    writer.write([row(Case("op", {"N": n, "mode": mode}, "float32")) for n in range(1, 7) for mode in modes])
    names = sorted(path.name for path in write(writer.path, formats=("png",)))
    assert names == ["odd_gbps_..-c.png", "odd_gbps_a-b.png", "odd_gbps_d-e.png", "odd_gbps_f-g.png", "odd_gbps_h.png"]


def test_nothing_ok_is_one_line_with_the_counts(tmp_path: Path) -> None:
    rows = [row(case(n), status=status) for n, status in ((1, "wrong"), (2, "wrong"), (3, "checked"))]
    copy = row(case(4), "copy", role=CONTROL)
    path = save(tmp_path / "a.csv", [*rows, copy])
    with pytest.raises(TableError) as caught:
        write(path)
    assert "1 checked, 2 wrong" in str(caught.value) and str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.glob("*.png")) == []


def test_no_rows_at_all(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="no rows at all"):
        write(save(tmp_path / "a.csv", []))


def test_unknown_metric_and_format_name_the_known_ones(tmp_path: Path) -> None:
    path = save(tmp_path / "a.csv", [row(case(256))])
    with pytest.raises(TableError, match=r"tflops.*gbps, ms, speedup"):
        write(path, "tflops")
    with pytest.raises(TableError, match=r"gif.*png, svg"):
        write(path, formats=("gif",))


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    path = save(tmp_path / "a.csv", [row(case(256))])
    with pytest.raises(TableError, match="cannot be written"):
        write(path, out_dir=path)


def test_an_incomplete_file_says_so_in_the_picture(tmp_path: Path) -> None:
    path = save(tmp_path / "a.csv", [row(case(256)), row(case(512)), row(case(1024))])
    path.write_text(path.read_text()[:-80])
    [picture] = plot(table.read(path))
    assert "incomplete" in caption(picture.figure)


def test_an_operator_without_sizes_is_bars(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "a.csv", ("mode",))
    writer.write([row_of_mode(mode) for mode in ("up", "down")])
    [picture] = plot(table.read(writer.path))
    assert [axes.get_title(loc="left") for axes in picture.figure.axes] == ["mode=down", "mode=up"]


def row_of_mode(mode: str) -> Row:
    return Row(Case("flip", {"mode": mode}, "float32"), "torch", ms=1.0, gbps=100.0, timer="do_bench", cache="cold")


def test_drawing_needs_neither_torch_nor_pyplot() -> None:
    code = "import sys, kbench.plotting; print({'torch', 'triton', 'matplotlib.pyplot'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
