"""A drawing area of characters, made with plotext.

plotext has no logarithmic axis to base 2 and chooses ticks by itself. The canvas computes coordinates and ticks for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.ticker import LogLocator, MaxNLocator

from kbench.plotting.panels.scale import short


class Canvas:
    """One chart. Width and height are in characters. plotext has a single drawing area, which each new canvas clears."""

    def __init__(self, width: int, height: int, *, x_log: bool, y_log: bool) -> None:
        import plotext  # type: ignore[import-untyped]  # slow to import, and most pictures are files

        self.plotext = plotext
        self.figure = plotext.figure
        self.figure.clear()
        self.figure.theme("colorless")
        self.figure.plot_size(width, height)
        self.width, self.x_log, self.y_log = width, x_log, y_log

    def line(self, xs: Sequence[float], ys: Sequence[float], marker: str, colour: str) -> None:
        """Draw a line through points. `marker` is a character or the name of one of plotext's markers."""
        if xs:
            self.figure.draw(self._signal(xs, ys, marker, colour).lines())

    def points(self, xs: Sequence[float], ys: Sequence[float], marker: str, colour: str) -> None:
        """Draw a character at each point."""
        if xs:
            self.figure.draw(self._signal(xs, ys, marker, colour))

    def text(self, xs: Sequence[float], bottom: float, top: float, *, plain: bool) -> str:
        """The chart over the sizes `xs`, between the values `bottom` and `top`, without colours if `plain`."""
        ticks, heights = self._x_ticks(xs), self._y_ticks(bottom, top)
        names = [short(x) if self.x_log else f"{x:g}" for x in ticks]
        first, last = self._x(xs[0]), self._x(xs[-1])
        self.figure.ruler("x").ticks([self._x(x) for x in ticks], names)
        self.figure.ruler("x").lim(first, last + 0.03 * (last - first))  # room for half of the last name
        self.figure.ruler("y").ticks([self._y(y) for y in heights], [f"{y:g}" for y in heights])
        self.figure.ruler("y").lim(self._y(bottom), self._y(top))
        self.figure.axes(False, side=1)
        drawn = str(self.figure.build()).rstrip("\n")
        return str(self.plotext.uncolorize(drawn)) if plain else drawn

    def _signal(self, xs: Sequence[float], ys: Sequence[float], marker: str, colour: str) -> Any:
        style = self.plotext.marker(marker, colour)
        return self.figure.signal([self._x(x) for x in xs], [self._y(y) for y in ys], marker=style)

    def _x(self, value: float) -> float:
        return math.log2(value) if self.x_log else float(value)

    def _y(self, value: float) -> float:
        return math.log10(value) if self.y_log else float(value)

    def _x_ticks(self, xs: Sequence[float]) -> list[float]:
        most = max(2, self.width // 10)
        if self.x_log or len(xs) <= most:
            return list(xs[:: math.ceil(len(xs) / most)])
        return [tick for tick in MaxNLocator(most).tick_values(xs[0], xs[-1]) if xs[0] <= tick <= xs[-1]]

    def _y_ticks(self, bottom: float, top: float) -> list[float]:
        locator = LogLocator(subs=(1, 2, 5), numticks=20) if self.y_log else MaxNLocator(6)
        return [tick for tick in locator.tick_values(bottom, top) if bottom <= tick <= top]
