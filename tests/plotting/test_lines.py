"""Lines: which curves, bands, ceilings and axes a picture has."""

from __future__ import annotations

import itertools
import math

import pytest
from drawing import (
    H200,
    NS,
    Draw,
    case,
    curves,
    drawn_row,
    labels,
    legend,
    marks,
    sweep,
)


def test_the_theoretical_bandwidth_is_drawn_where_it_does_not_press_the_data_flat(draw: Draw) -> None:
    [fast] = draw(*sweep("triton", gbps=3000.0), environment=H200)
    assert "theoretical 4814" in labels(fast.axes[0])
    [slow] = draw(*sweep("triton", gbps=100.0, gbps_p80=None), environment=H200)
    assert not any("theoretical" in text for text in labels(slow.axes[0]))
    assert slow.axes[0].get_ylim()[1] < 150


def test_the_region_that_fits_into_the_cache_is_shaded_up_to_its_edge(draw: Draw) -> None:
    rows = [drawn_row(case(n), ms=n / 1e3, gbps=8000.0 / 1e3) for n in NS]  # n * 8000 bytes a call
    [figure] = draw(*rows, environment={"cache_bytes": 8000 * 600})
    assert "fits in L2 (5 MiB)" in labels(figure.axes[0])
    [region] = figure.axes[0].patches
    assert region.get_extents().transformed(figure.axes[0].transData.inverted()).x1 == pytest.approx(600)
    for none_or_all in (1000, 10**9):
        [figure] = draw(*rows, environment={"cache_bytes": none_or_all})
        assert not figure.axes[0].patches and not any("fits in" in text for text in labels(figure.axes[0]))
    [figure] = draw(*rows, environment={"cache_bytes": 8000 * 600, "device_type": "cpu"})
    assert "fits in cache (5 MiB)" in labels(figure.axes[0])


def test_sessions_are_one_line_with_the_widest_band(draw: Draw) -> None:
    rows = [
        drawn_row(case(n), session=s, ms=ms, ms_p20=ms - 1, ms_p80=ms + s)
        for n in NS
        for s, ms in enumerate((5.0, 9.0, 6.0))
    ]
    [figure] = draw(*rows, metric="ms")
    assert curves(figure.axes[0]) == [[(n, 6000.0) for n in NS]]  # in microseconds
    band = figure.axes[0].collections[0].get_paths()[0].get_extents()
    assert (band.y0, band.y1) == (4000.0, 10000.0)


def test_a_gap_where_a_provider_has_no_value(draw: Draw) -> None:
    rows = [drawn_row(case(n), "cuda", status="wrong" if n == 1024 else "ok") for n in NS]
    [figure] = draw(*rows, *sweep("triton"))
    gaps = [[n for n, y in line if math.isnan(y)] for line in curves(figure.axes[0])]
    assert sorted(gaps) == [[], [1024]]


def test_a_long_line_has_few_markers_but_one_on_every_lonely_point(draw: Draw) -> None:
    ns = range(128, 128 * 60, 128)
    rows = [drawn_row(case(n), "cuda", status="timeout" if n == 128 * 32 or n > 128 * 33 else "ok") for n in ns]
    [figure] = draw(*rows, *sweep("triton", ns=ns))
    circles, squares = marks(figure.axes[0], "o"), marks(figure.axes[0], "s")
    assert 128 * 33 in circles[0].get_xdata()  # cuda's, between two gaps
    assert 5 < len(squares[0].get_xdata()) < 20


@pytest.mark.parametrize(
    ("sizes", "scale"),
    [
        ([128 * i for i in range(2, 100)], "linear"),
        ([2**k for k in range(8, 19)], "log"),
        ([256, 1024, 4096, 12672], "log"),
        ([0, 1000, 100_000], "linear"),
    ],
)
def test_the_x_scale_follows_the_sweep(draw: Draw, sizes: list[int], scale: str) -> None:
    [figure] = draw(*(drawn_row(case(n), ms=1.0) for n in sizes))
    assert figure.axes[0].get_xscale() == scale


@pytest.mark.parametrize(
    "sizes",
    [
        [100_352 * i for i in range(1, 13)],
        [128 * i for i in range(98)],
        [1024, 32_000, 128_256, 129_280, 151_936, 201_088, 256_000],
    ],
)
def test_labels_along_x_do_not_touch(draw: Draw, sizes: list[int]) -> None:
    [figure] = draw(*(drawn_row(case(n, m=m), ms=1.0) for n in sizes for m in (64, 512)))
    figure.draw_without_rendering()
    names = [label for label in figure.axes[0].get_xticklabels() if label.get_text()]
    boxes = sorted((label.get_window_extent() for label in names), key=lambda box: box.x0)
    assert len(boxes) >= 3 and all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


def test_speeds_start_at_zero_and_a_wild_band_does_not_press_them_flat(draw: Draw) -> None:
    [figure] = draw(*sweep("triton", gbps_p80=1e6))
    bottom, top = figure.axes[0].get_ylim()
    assert bottom == 0 and 2000 < top < 3000


def test_errors_are_drawn_for_checked_rows_too_and_may_be_zero(draw: Draw) -> None:
    checked = [drawn_row(case(n), "triton", status="checked", reason="", max_ulp=0.0) for n in NS]
    timed = sweep("cuda", max_ulp=2.5, flags=("overhead-bound", "suspect"))
    [figure] = draw(*checked, *timed, metric="ulp", environment=H200)
    assert sorted(curves(figure.axes[0])) == [[(n, 0.0) for n in NS], [(n, 2.5) for n in NS]]
    assert legend(figure) == []  # flags are about times
    assert sorted(labels(figure.axes[0])) == ["cuda", "triton"]  # and so is the cache
