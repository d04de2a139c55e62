"""Rows for the tests of pictures, and what a reader would see in one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from kbench.execute.writer import Writer
from kbench.results.case import Case
from kbench.results.row import Row

Draw = Callable[..., list[Figure]]
NS = (256, 512, 1024, 2048, 4096)
H200 = {
    "peak_gbps": 4814.3,
    "cache_bytes": 60 * 2**20,
    "driver": "580.1",
    "packages": {"torch": "2.11", "triton": "3.6"},
}
"""An environment file."""


def drawn_row(case: Case, provider: str = "triton", params: str = "", **fields: object) -> Row:
    """A row that is ok at 2000 GB/s, unless `status` says otherwise."""
    ms = case.N / 1e5
    measured = {"ms": ms, "ms_p20": ms * 0.9, "ms_p80": ms * 1.2, "gbps": 2e3, "gbps_p20": 1800.0, "gbps_p80": 2200.0}
    if fields.get("status", "ok") != "ok":
        measured = {"reason": "it is so"}  # type: ignore[dict-item]
    constant = {
        "timer": "do_bench",
        "cache": "cold",
        "device": "NVIDIA H200",
        "started_at": "2026-11-20T10:00:00+00:00",
    }
    return Row(case, provider, params, **{**constant, **measured, **fields})  # type: ignore[arg-type]


def case(n: int, m: int = 4096, dtype: str = "float32", operator: str = "softmax") -> Case:
    return Case(operator, {"M": m, "N": n}, dtype)


def sweep(*providers: str, ns: Iterable[int] = NS, **fields: object) -> list[Row]:
    """A row of each provider at each size."""
    return [drawn_row(case(n), provider, **fields) for n in ns for provider in providers]


def save(
    path: Path, rows: Iterable[Row], axes: tuple[str, ...] = ("M", "N"), environment: dict[str, Any] | None = None
) -> Path:
    Writer(path, axes).begin().write(list(rows))
    if environment:
        path.with_suffix(".env.json").write_text(json.dumps(environment))
    return path


def legend(figure: Figure) -> list[str]:
    """Everything that a legend names, beside the panels or below them."""
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def labels(axes: Axes) -> list[str]:
    """The texts written into a panel or beside it."""
    return [text.get_text() for text in axes.texts]


def curves(axes: Axes) -> list[list[tuple[float, float]]]:
    """The points of the curves of a panel, without markers and lines across the panel."""
    return [points(line) for line in axes.lines if line.get_linestyle() != "None" and len(line.get_xdata()) > 2]


def points(line: Line2D) -> list[tuple[float, float]]:
    return list(zip(line.get_xdata(), line.get_ydata(), strict=True))  # type: ignore[arg-type]


def marks(axes: Axes, marker: object) -> list[Line2D]:
    """The artists with a marker and no line."""
    return [line for line in axes.lines if line.get_linestyle() == "None" and line.get_marker() == marker]


def caption(figure: Figure) -> str:
    return " ".join(str(figure.get_supxlabel()).split())


def panels(figure: Figure) -> list[str]:
    return [axes.get_title(loc="left") for axes in figure.axes]
