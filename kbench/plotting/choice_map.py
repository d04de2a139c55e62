"""A map of choices: areas in the colour of what is chosen there, and dots in the colour of what is best."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, NullLocator

from kbench.plotting.scales import short
from kbench.plotting.sheet import LegendEntry, grid, make_page, settle
from kbench.plotting.style import LIGHT, mix, styled, styles

MAP_INCHES, STRIP_INCHES = 3.4, 1.5
"""The height of a panel, and of one without y."""

PALE = 0.45
"""The share of the background in the colour of an area, so that dots stand out."""


@dataclass(frozen=True)
class Dot:
    """A measured place and the provider that is best there."""

    x: float
    y: float
    best: str


@dataclass(frozen=True)
class ChoicePanel:
    """`chosen` has a list for each of `ys`, with the provider at each of `xs`. Sizes are above 0. `y_name` is "" for a strip
    of one row."""

    title: str
    x_name: str
    y_name: str
    xs: Sequence[float]
    ys: Sequence[float]
    chosen: Sequence[Sequence[str]]
    dots: Sequence[Dot]


def choice_map(panels: Sequence[ChoicePanel], title: str, caption: str) -> bytes:
    """The map as the bytes of a PNG."""
    areas = {name for panel in panels for row in panel.chosen for name in row}
    names = sorted(areas | {dot.best for panel in panels for dot in panel.dots})
    colours = {name: style.colour for name, style in styles(names, LIGHT).items()}
    with styled(LIGHT):
        columns, rows = grid(len(panels))
        entries: list[LegendEntry] = [
            (name, Patch(color=mix(colours[name], LIGHT.background, PALE))) for name in sorted(areas)
        ]
        entries.append(("dot: fastest there (measured)", _marker(LIGHT.ink)))
        entries += [(name, _marker(colours[name])) for name in names if name not in areas]
        body = rows * (MAP_INCHES if panels[0].y_name else STRIP_INCHES)
        figure, grid_axes = make_page(len(panels), columns, body, title, caption, [entries], LIGHT)
        for axes, panel in zip(grid_axes, panels, strict=True):
            _draw(axes, panel, colours)
        settle(figure)
        stream = io.BytesIO()
        figure.savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()


def _marker(colour: str) -> Line2D:
    """A dot of the legend."""
    return Line2D([], [], marker="o", linestyle="", markeredgecolor=LIGHT.background, color=colour, markersize=7)


def _draw(axes: Axes, panel: ChoicePanel, colours: dict[str, str]) -> None:
    names = list(colours)
    indices = np.array([[names.index(name) for name in row] for row in panel.chosen])
    ys = panel.ys if panel.y_name else [0.5, 1.5]
    cells = indices if panel.y_name else np.vstack([indices, indices])
    pale = ListedColormap([mix(colours[name], LIGHT.background, PALE) for name in names])
    axes.pcolormesh(
        panel.xs, ys, cells, cmap=pale, vmin=-0.5, vmax=len(names) - 0.5, shading="nearest", rasterized=True
    )
    for dot in panel.dots:
        axes.plot(dot.x, dot.y, "o", color=colours[dot.best], markeredgecolor=LIGHT.background, markersize=6.5)
    axes.grid(visible=False)
    axes.set_xscale("log", base=2)
    axes.set_xlim(panel.xs[0], panel.xs[-1])
    axes.set_xlabel(panel.x_name)
    if panel.y_name:
        axes.set_yscale("log", base=2)
        axes.set_ylim(panel.ys[0], panel.ys[-1])
        axes.set_ylabel(panel.y_name)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        axis.set_minor_locator(NullLocator())
    if not panel.y_name:
        axes.set_yticks([])
    axes.set_title(panel.title, loc="left")
