"""Pictures, pages and summaries of rows that differ in a scalar or in the mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from drawing import curves, drawn_row, panels, save
from matplotlib.figure import Figure

from kbench.analysis.files import load_sources
from kbench.errors import UsageError
from kbench.plotting import Choices, plot
from kbench.results.case import Case
from kbench.results.row import Row

AXES = ("M", "N", "eps", "causal", "mode")
EPS, NS = (1e-6, 1e-5, 1e-4), (256, 512, 1024, 2048)


def normed(eps: float = 1e-6, n: int = 256, *, causal: bool = False, mode: str = "forward", **fields: Any) -> Row:
    case = Case("norm", {"M": 64, "N": n, "eps": eps, "causal": causal, "mode": mode}, "float32")
    return drawn_row(case, str(fields.pop("provider", "mine")), **fields)


def figures(tmp_path: Path, rows: list[Row], **choices: Any) -> list[Figure]:
    path = save(tmp_path / "norm.csv", rows, AXES)
    return [picture.figure for picture in plot(load_sources([path]), Choices(**choices))]


@pytest.mark.slow
def test_sizes_run_along_x_unless_a_scalar_is_asked_for(tmp_path: Path) -> None:
    rows = [normed(eps, n) for eps in EPS for n in NS]
    [usual] = figures(tmp_path, rows)
    assert {axes.get_xlabel() for axes in usual.axes} == {"N"}
    assert panels(usual) == ["eps=1e-06", "eps=1e-05", "eps=0.0001"]
    [asked] = figures(tmp_path, rows, x="eps", by=["N"])
    assert panels(asked) == [f"N={n}" for n in NS]
    [curve] = curves(asked.axes[0])
    assert [x for x, _ in curve] == list(EPS)
    assert [tick.get_text() for tick in asked.axes[0].get_xticklabels()] == ["1e-06", "1e-05", "0.0001"]
    with pytest.raises(UsageError, match="--x: 'causal' holds no numbers; choose from M, N, eps"):
        figures(tmp_path, rows, x="causal")
    with pytest.raises(UsageError, match="--x: unknown axis 'casual'; choose from M, N, eps"):
        figures(tmp_path, rows, x="casual")
