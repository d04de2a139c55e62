"""Maps of choices: areas in the colour of what is chosen there, and dots in the colour of what is best."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import NullLocator

from kbench.plotting.scales import short
from kbench.plotting.sheet import Grid, finish, make_panels
from kbench.plotting.style import LIGHT, mix, styled, styles

PALE = 0.45
"""The share of the background in the colour of an area, so that dots stand out."""


@dataclass(frozen=True)
class ChoicePanel:
    """`chosen` has a list for each of `ys`, with the provider at each of `xs`. Sizes are above 0. `y_name` is "" for a strip
    of one row. `dots` are measured places, with the provider that is best there."""

    title: str
    x_name: str
    y_name: str
    xs: Sequence[float]
    ys: Sequence[float]
    chosen: Sequence[Sequence[str]]
    dots: Sequence[tuple[float, float, str]]


def choice_map(panels: Sequence[ChoicePanel], title: str, caption: str) -> bytes:
    """The map as the bytes of a PNG."""
    areas = {name for panel in panels for row in panel.chosen for name in row}
    names = sorted(areas | {best for panel in panels for _, _, best in panel.dots})
    colours = {name: style.colour for name, style in styles(names, LIGHT).items()}
    grid = Grid.of([panel.title for panel in panels])
    legend = [
        *(Patch(color=_pale(colours[name]), label=name) for name in sorted(areas)),
        _dot("dot: fastest there (measured)", LIGHT.ink),
        *(_dot(name, colours[name]) for name in names if name not in areas),
    ]
    stream = io.BytesIO()
    with styled():
        figure, grid_axes = make_panels(grid, grid.rows * (3.4 if panels[0].y_name else 1.5))
        for axes, panel in zip(grid_axes, panels, strict=True):
            _draw_panel(axes, panel, colours)
        finish(figure, title, caption, legend, LIGHT).savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()


def _pale(colour: str) -> str:
    return mix(colour, LIGHT.background, PALE)


def _dot(label: str, colour: str) -> Line2D:
    """A dot of the legend."""
    edge = LIGHT.background
    return Line2D([], [], label=label, marker="o", linestyle="", markeredgecolor=edge, color=colour, markersize=7)


def _draw_panel(axes: Axes, panel: ChoicePanel, colours: Mapping[str, str]) -> None:
    names = list(colours)
    cells = np.array([[names.index(name) for name in row] for row in panel.chosen])
    ys = panel.ys if panel.y_name else [0.5, 1.5]  # a strip is twice its only row
    cells = np.broadcast_to(cells, (len(ys), len(panel.xs)))
    pale = ListedColormap([*map(_pale, colours.values())])
    ends: dict[str, Any] = {"vmin": -0.5, "vmax": len(names) - 0.5}
    axes.pcolormesh(panel.xs, ys, cells, cmap=pale, shading="nearest", rasterized=True, **ends)
    for x, y, best in panel.dots:
        axes.plot(x, y, "o", color=colours[best], markeredgecolor=LIGHT.background, markersize=6.5)
    axes.grid(visible=False)
    axes.set_xscale("log", base=2)
    if panel.y_name:
        axes.set_yscale("log", base=2)
    axes.set(xlim=(panel.xs[0], panel.xs[-1]), ylim=(ys[0], ys[-1]), xlabel=panel.x_name, ylabel=panel.y_name)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: short(value))
        axis.set_minor_locator(NullLocator())
    if not panel.y_name:
        axes.set_yticks([])
