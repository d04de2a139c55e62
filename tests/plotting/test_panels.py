"""What becomes a panel, a picture of its own, or an error that says how to choose. No line joins two configurations."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from drawing import Draw, caption, case, curves, drawn_row, legend, panels

from kbench.errors import UsageError
from kbench.results.case import Case
from kbench.results.row import Row


@pytest.mark.parametrize("field", ["device", "timer", "cache"])
def test_no_line_joins_two_ways_of_measuring(draw: Draw, field: str) -> None:
    rows = [drawn_row(case(n), **{field: f"{field}-{n % 3}"}) for n in (256, 512, 1024, 2048, 4096, 8192)]
    [figure] = draw(*rows)
    assert [len(line) for axes in figure.axes for line in curves(axes)] == [3, 3]
    assert panels(figure) == [f"{field}-1", f"{field}-2"]
    [winners] = draw(*rows, drawn_row(case(4096, 2), status="wrong"), kind="heatmap")
    assert "not shown: 1 case in which" in caption(winners)
    assert panels(winners) == [f"{field}-1", f"{field}-2"]


def test_an_axis_that_goes_with_x_makes_no_panels(draw: Draw) -> None:
    """Sizes whose product is constant make one line, and the caption says so."""
    rows = [drawn_row(case(n, 2**20 // n)) for n in (256, 512, 1024, 2048)]
    [figure] = draw(*rows)
    assert [len(line) for axes in figure.axes for line in curves(axes)] == [4]
    assert "M varies with N: M=4096 at N=256, M=512 at N=2048" in caption(figure)
    shared = [*rows, drawn_row(case(4096, 512))]  # two lengths have 512 rows: that is a choice again
    assert sum(len(panels(figure)) or 1 for figure in draw(*shared)) > 1


@pytest.mark.slow
def test_too_many_pictures_or_panels_say_how_to_choose(draw: Draw) -> None:
    rows = [drawn_row(case(n, m)) for n in range(256, 300) for m in range(1, 41)]
    for choices in ({}, {"by": ["M"]}, {"kind": "bars"}):
        with pytest.raises(UsageError, match=r"--where '[MN]=.*--x.*--by") as caught:
            draw(*rows, **choices)
        assert "\n" not in str(caught.value)


def parameter_sweep(ns: Iterable[int]) -> list[Row]:
    params = [f"num_warps={w},num_stages={s}" for w in (1, 2, 4, 8, 16, 32) for s in (1, 2, 3, 4)]
    return [
        drawn_row(case(n), *curve) for n in ns for curve in [("triton-row", p) for p in params] + [("torch-native", "")]
    ]


def test_a_wide_parameter_sweep_runs_along_the_parameter(draw: Draw) -> None:
    [figure] = draw(*parameter_sweep((1024, 4096, 8192, 16384)))
    assert panels(figure) == [f"N={n}" for n in (1024, 4096, 8192, 16384)]
    assert figure.axes[0].get_xlabel() == "num_warps"
    stages = [f"triton-row[num_warps=*,num_stages={s}]" for s in (1, 2, 3, 4)]
    assert sorted(legend(figure)) == ["torch-native", *stages]
    assert [x for x, _ in curves(figure.axes[0])[0]] == [1, 2, 4, 8, 16, 32]


@pytest.mark.slow
def test_sizes_run_along_x_unless_a_scalar_is_asked_for(draw: Draw) -> None:
    def normed(eps: float, n: int) -> Row:
        return drawn_row(Case("norm", {"M": 64, "N": n, "eps": eps, "causal": False, "mode": "forward"}, "float32"))

    scalars, sizes = (1e-6, 1e-5, 1e-4), (256, 512, 1024, 2048)
    rows, axes = [normed(eps, n) for eps in scalars for n in sizes], ("M", "N", "eps", "causal", "mode")
    [usual] = draw(*rows, axes=axes)
    assert {panel.get_xlabel() for panel in usual.axes} == {"N"}
    assert panels(usual) == ["eps=1e-06", "eps=1e-05", "eps=0.0001"]
    [asked] = draw(*rows, axes=axes, x="eps", by=["N"])
    assert panels(asked) == [f"N={n}" for n in sizes]
    [curve] = curves(asked.axes[0])
    assert [x for x, _ in curve] == list(scalars)
    assert [tick.get_text() for tick in asked.axes[0].get_xticklabels()] == ["1e-06", "1e-05", "0.0001"]
    for x, problem in {"causal": "'causal' holds no numbers; choose from M, N, eps", "n": 'did you mean "N"'}.items():
        with pytest.raises(UsageError, match=f"--x: .*{problem}"):
            draw(*rows, axes=axes, x=x)
