"""Markers of curves, and marks of rows that have no value or one to distrust."""

from __future__ import annotations

from typing import Any

from matplotlib.path import Path
from matplotlib.textpath import TextPath

from kbench.plotting.selection.points import DECLINED, FAILED, WRONG
from kbench.plotting.style.colours import Style


def _centred(text: str) -> Path:
    path = TextPath((0, 0), text)
    box = path.get_extents()
    return Path(path.vertices - [(box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2], path.codes)


SUSPECT = _centred("?")
MARKS: dict[str, Any] = {WRONG: "x", FAILED: (6, 2, 0), DECLINED: "_"}
"""A cross, an asterisk and a dash, by kind of row: no curve's own marker looks like one."""

SIZES = {"P": 8.0, "X": 8.0, "*": 10.5, "D": 6.0}
"""Sizes of the markers that would otherwise look smaller than the others, or larger."""


def of_curve(style: Style) -> dict[str, Any]:
    """The marker of a curve as matplotlib takes it."""
    return {"marker": style.marker, "markersize": SIZES.get(style.marker, 6.5)}


def of_kind(kind: str, scale: float = 1.0) -> dict[str, Any]:
    """The mark of a kind of row as matplotlib takes it."""
    width = 1.4 if kind == FAILED else 2.0
    return {"marker": MARKS[kind], "linestyle": "", "markersize": 8.5 * scale, "markeredgewidth": width * scale}
