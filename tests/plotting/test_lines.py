"""Lines and changes: which curves, bands, ceilings and axes a picture has."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest
from drawing import H200, NS, Draw, case, curves, drawn_row, labels, save, sweep

from kbench.analysis.files import load_sources
from kbench.plotting import Choices, plot
from kbench.plotting.scales import factors, short


def test_sessions_are_one_line_with_the_widest_band(draw: Draw) -> None:
    rows = [
        drawn_row(case(n), session=s, ms=ms, ms_p20=ms - 1, ms_p80=ms + s, max_ulp=ms)
        for n in NS
        for s, ms in enumerate((5.0, 9.0, 6.0))
    ]
    [figure] = draw(*rows, metric="ms")
    assert curves(figure.axes[0]) == [[(n, 6000.0) for n in NS]]  # in microseconds
    band = figure.axes[0].collections[0].get_paths()[0].get_extents()
    assert (band.y0, band.y1) == (4000.0, 10000.0)
    for metric, band in {"ms": "p20 to p80", "ulp": "all sessions"}.items():
        assert any(f"band: {band}" in text.get_text() for text in draw(*rows, metric=metric)[0].texts)


def test_a_gap_where_a_provider_has_no_value(draw: Draw) -> None:
    rows = [drawn_row(case(n), "cuda", status="wrong" if n == 1024 else "ok") for n in NS]
    [figure] = draw(*rows, *sweep("triton"))
    gaps = [[n for n, y in line if math.isnan(y)] for line in curves(figure.axes[0])]
    assert sorted(gaps) == [[], [1024]]


@pytest.mark.parametrize(
    ("sizes", "scale"),
    [
        ([128 * i for i in range(2, 100)], "linear"),
        ([256, 1024, 4096, 12672], "log"),
        ([0, 1000, 100_000], "linear"),
    ],
)
def test_the_x_scale_follows_the_sweep(draw: Draw, sizes: list[int], scale: str) -> None:
    [figure] = draw(*(drawn_row(case(n), ms=1.0) for n in sizes))
    assert figure.axes[0].get_xscale() == scale


@pytest.mark.parametrize(
    "sizes", [[100_352 * i for i in range(1, 13)], [1024, 32_000, 128_256, 129_280, 151_936, 201_088, 256_000]]
)
def test_labels_along_x_do_not_touch(draw: Draw, sizes: list[int]) -> None:
    [figure] = draw(*(drawn_row(case(n, m=m), ms=1.0) for n in sizes for m in (64, 512)))
    figure.draw_without_rendering()
    names = [label for label in figure.axes[0].get_xticklabels() if label.get_text()]
    boxes = sorted((label.get_window_extent() for label in names), key=lambda box: box.x0)
    assert len(boxes) >= 3 and all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


@pytest.mark.parametrize(("speed", "near"), [(3000.0, True), (300.0, False)])
def test_a_limit_of_the_device_is_in_the_picture_where_the_values_are_near(
    draw: Draw, speed: float, near: bool
) -> None:
    [figure] = draw(*sweep("triton", gbps=speed, gbps_p20=speed, gbps_p80=speed), environment=H200)
    assert ("theoretical 4814" in labels(figure.axes[0])) == near


def test_the_sizes_that_fit_into_the_cache_are_shaded(draw: Draw) -> None:
    [figure] = draw(*sweep("triton"), environment=H200)  # a call takes 20 kB for each N, and the cache has 60 MiB
    [shade] = figure.axes[0].patches
    assert shade.get_x() + shade.get_width() == pytest.approx(3145.7, abs=0.1)  # type: ignore[attr-defined]
    assert "fits in L2 (60 MiB)" in labels(figure.axes[0])


def test_sizes_along_x_are_short_where_they_are_whole_multiples() -> None:
    assert [*map(short, (512, 4096, 1_000_000, 2**20, 3 * 2**30))] == ["512", "4K", "1000000", "1M", "3G"]


def test_an_axis_of_factors_has_ticks_that_do_not_overlap() -> None:
    assert factors(0.53, 5.8, 7) == pytest.approx([0.7, 1, 1.5, 2, 3, 5])
    assert factors(1.0, 1e12, 8) == [10.0**k for k in range(0, 13, 2)]


def test_speeds_start_at_zero_and_a_wild_band_does_not_press_them_flat(draw: Draw) -> None:
    [figure] = draw(*sweep("triton", gbps_p80=1e6))
    bottom, top = figure.axes[0].get_ylim()
    assert bottom == 0 and 2000 < top < 3000


# -- changes


def test_the_margin_is_shaded_on_both_sides_of_no_change(tmp_path: Path) -> None:
    files = [save(tmp_path / f"{name}.csv", [drawn_row(case(256), session=s) for s in range(3)]) for name in "ab"]
    [picture] = plot(load_sources(files, ""), Choices(kind="change", margin=0.05))
    [band] = picture.figure.axes[0].patches
    box = band.get_window_extent().transformed(picture.figure.axes[0].transData.inverted())
    assert (box.x0, box.x1) == pytest.approx((-math.log(1.05), math.log(1.05)))
