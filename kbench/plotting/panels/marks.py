"""Markers of curves, and the marks of rows that have no value or a suspect one, as matplotlib takes them."""

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


QUESTION_MARK = _centred("?")
"""The mark of a suspect value."""

MARK_SHAPES: dict[str, Any] = {WRONG: "x", FAILED: (6, 2, 0), DECLINED: "_"}
"""By kind of row: a cross, an asterisk and a dash. No marker of a curve looks like one of them."""

MARKER_SIZES = {"P": 8.0, "X": 8.0, "*": 10.5, "D": 6.0}
"""Sizes in points of markers that would look smaller or larger than the others at the usual size."""

MARKER_SIZE = 6.5


def curve_marker(style: Style) -> dict[str, Any]:
    """The marker of a curve."""
    return {"marker": style.marker, "markersize": MARKER_SIZES.get(style.marker, MARKER_SIZE)}


def row_mark(kind: str, scale: float = 1.0) -> dict[str, Any]:
    """The mark of a kind of row."""
    width = 1.4 if kind == FAILED else 2.0
    return {"marker": MARK_SHAPES[kind], "linestyle": "", "markersize": 8.5 * scale, "markeredgewidth": width * scale}
