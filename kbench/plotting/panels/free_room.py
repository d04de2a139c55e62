"""Where a panel of lines has room for small print, so that no curve passes through it."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.path import Path
from matplotlib.transforms import Bbox

_BELOW_LINE, _BELOW_CURVE = 0.005, 0.03
"""Distances of small print from a line and from a curve above it, as shares of the panel."""

_STEP = 0.02
"""Distance of the heights that are tried, as a share of the panel."""


class FreeRoom:
    """What a panel holds, as shares of its width and height from its lower left corner. The limits of the axes must be set."""

    def __init__(self, axes: Axes, panel: pd.DataFrame) -> None:
        self.to_share = axes.transData + axes.transAxes.inverted()
        self.right = axes.get_xlim()[1]
        self.tops = [1.0]  # lower edges of what small print can stand under
        self.paths: list[Path] = []
        known = panel[panel["value"].notna()].sort_values("x")
        for _, curve in known.groupby(["file", "curve"]):
            if curve["x"].isna().any():  # a level across the panel
                self.paths += [_line(self.height(value)) for value in curve["value"]]
            else:
                self.paths.append(Path(self.to_share.transform(curve[["x", "value"]].to_numpy(dtype="float64"))))

    def height(self, value: float) -> float:
        """The height of a value."""
        return float(self.to_share.transform((self.right, value))[1])

    def add_line(self, height: float) -> None:
        """Count a line across the panel."""
        self.paths.append(_line(height))
        self.tops.append(height)

    def is_free(self, left: float, bottom: float, right: float, top: float) -> bool:
        """Whether nothing passes through a box."""
        box = Bbox([[left, bottom], [right, top]])
        return not any(path.intersects_bbox(box, filled=False) for path in self.paths)

    def at_left(self, width: float, height: float, bottom: float) -> tuple[float, str]:
        """A free place at the left edge, above the height `bottom`: its height, and whether that is its "top" or "bottom".

        It is the highest place under the upper edge or under a line, else the bottom, else the highest free place. Where
        none is free it is the bottom.
        """
        searched = (1 - _STEP * step for step in range(int((1 - bottom - height) / _STEP)))
        for top in sorted(self.tops, reverse=True):
            if self.is_free(0, top - height, width, top - _BELOW_LINE):
                return top, "top"
        if not self.is_free(0, bottom, width, bottom + height):
            for top in searched:
                if self.is_free(0, top - height, width, top + _BELOW_CURVE):
                    return top, "top"
        return bottom, "bottom"


def _line(height: float) -> Path:
    return Path([(0.0, height), (1.0, height)])
