"""Maps of winners: for each case the fastest curve, its margin, and whether the difference is more than noise. Maps of choices:
areas in the colour of what is chosen there, and dots in the colour of what is best."""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import NullLocator

from kbench.analysis.files import ResultsFile
from kbench.analysis.ranking import FASTEST, MARKS, TIED, UNCLEAR, Winner, first_places
from kbench.errors import ResultsError, UsageError
from kbench.plotting.names import BARE_COLUMNS, natural, size_text
from kbench.plotting.pages import Look, Page, axes_of, choose_axis, numbers_of, where_of
from kbench.plotting.scales import short, ticks
from kbench.plotting.sheet import PAGE_WIDTHS, Grid, finish, make_panels, text_width, write_beside
from kbench.plotting.style import LIGHT, mix, styled, styles
from kbench.text.words import plural

SIGNS = "1.10x: the runner-up takes 10 % longer · ~: a tie · ?: too noisy to tell"
SHADES = "fainter: a closer runner-up"
"""What cells say, and what their colours say, for the caption."""

TIE_HATCH = "////"
TICK_SIZE = 10.5
"""Font size of the sizes along x, in points."""

TEXT_SIZES = (11, 9)
"""Font sizes of text in cells, in points: the first at which all of it fits, without the names if need be, or none."""

PALE = 0.45
"""The share of the background in the colour of an area, so that dots stand out."""


@dataclass(frozen=True)
class Cell:
    """A case in a map of winners, and its place. `y` is "" in a map of one row."""

    winner: Winner
    where: dict[str, Any]
    x: float
    y: Any = ""

    @property
    def curve(self) -> str:
        return self.winner.configuration_name

    @property
    def undecided(self) -> bool:
        return self.winner.mark in (TIED, UNCLEAR)

    @property
    def margin(self) -> str:
        """`1.27x`, `~` for a tie, `?` where it cannot be told, `alone` where there is no runner-up."""
        ratio = self.winner.margin
        if self.winner.mark == FASTEST:
            return f"{ratio:.2f}x" if ratio < 9.95 else f"{ratio:.0f}x"
        return self.winner.mark or "alone"


def cells_of(
    sources: Sequence[ResultsFile], x: str, paired: Collection[str], by: Collection[str]
) -> tuple[list[Cell], str]:
    """A cell per case, and the name of the column that is y: the other axis with the most values, else the dtype if it varies,
    else "". Axes that go with x (`paired`) or make panels (`by`) are never y.

    Raises UsageError where x is no axis, ResultsError where no provider was timed.
    """
    axes = axes_of(sources)
    if x not in axes:
        raise UsageError("--kind heatmap needs an axis with whole numbers; choose one with --x, or use --kind bars")
    if lacking := [source for source in sources if x not in source.axes]:
        raise UsageError(
            f"{lacking[0].path} has no axis {x!r}: choose another one with --x, or draw this file by itself"
        )
    cells = []
    for source in sources:
        for winner in source.analysis.winners:
            where = where_of(winner.rows[0], source.label, axes)
            cells.append(Cell(winner, where, where[x]))
    if not cells:
        paths = ", ".join(str(source.path) for source in sources)
        raise ResultsError(f"{paths}: every row is suspect or has no time; see the columns `reason` and `flags`")
    free = [name for name in reversed(axes) if name not in (x, *paired, *by)]
    y = choose_axis({name: sizes for name, sizes in numbers_of(cells, free).items() if len(sizes) > 1})
    if not y and "dtype" not in by and len({cell.where["dtype"] for cell in cells}) > 1:
        y = "dtype"
    return [replace(cell, y=cell.where[y]) if y else cell for cell in cells], y


def rows_of(cells: Sequence[Cell]) -> list[Any]:
    """The values of y from top to bottom: sizes in falling order, words in growing order."""
    values = {cell.y for cell in cells}
    return natural(values) if any(isinstance(value, str) for value in values) else sorted(values, reverse=True)


def draw_map(page: Page[Cell], look: Look) -> Figure:
    """A page of maps of winners. The panels stand below each other where names would not fit into the cells otherwise."""
    panels = page.panels
    grid = Grid.of(page.titles)
    if not all(_has_room(panel, look, grid.panel_width, TEXT_SIZES[0]) for panel in panels):
        many = max(len({cell.x for cell in panel}) for panel in panels) > 16
        grid = Grid(page.titles, 1, max(PAGE_WIDTHS.values()) if many else PAGE_WIDTHS[1])
    counts = [len(rows_of(panel)) for panel in panels]
    ratios = [max(counts[start : start + grid.columns]) for start in range(0, len(counts), grid.columns)]
    height = sum(max(1.25, 0.46 * count + 0.85) + 0.2 * len(look.paired) for count in ratios)
    figure, grid_axes = make_panels(grid, height, ratios)
    for axes, panel in zip(grid_axes, panels, strict=True):
        _draw_panel(axes, panel, look, grid.panel_width)
    return finish(figure, f"fastest: {look.title(page)}", look.caption, _legend(page.points, look), look.theme)


def _draw_panel(axes: Axes, panel: Sequence[Cell], look: Look, width: float) -> None:
    """Draw a cell per case, with larger y above. `width` of the panel, in points, decides whether cells have text."""
    theme = look.theme
    xs, ys = sorted({cell.x for cell in panel}), rows_of(panel)
    axes.set_xlim(-0.5, len(xs) - 0.5)
    axes.set_ylim(len(ys) - 0.5, -0.5)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    _label_x(axes, panel, look, xs, max(2, int(width // 42)))
    axes.set_yticks(range(len(ys)), [y if isinstance(y, str) else size_text(y) for y in ys])
    axes.set_ylabel("" if look.y in BARE_COLUMNS else look.y)
    with_names = [size for size in TEXT_SIZES if _has_room(panel, look, width, size)]
    sizes = with_names or [size for size in TEXT_SIZES if text_width("1.00x", size) < width / len(xs)]
    dark, light = sorted((theme.ink, theme.background), key=_brightness)
    for cell in panel:
        column, line = xs.index(cell.x), ys.index(cell.y)
        full = min(1.0, (cell.winner.margin - 1) / 0.5)  # where the runner-up takes at least 50 % longer
        face = mix(theme.background, look.styles[cell.curve].colour, 0.55 + 0.45 * full)
        hatch = TIE_HATCH if cell.undecided else None
        axes.add_patch(
            Rectangle((column - 0.5, line - 0.5), 1, 1, facecolor=face, edgecolor=theme.background, hatch=hatch)
        )
        if sizes:
            # no hatch behind text
            plate = {"facecolor": face, "linewidth": 0, "pad": 1.5} if cell.undecided else None
            text = f"{look.names[cell.curve]}\n{cell.margin}" if with_names else cell.margin
            ink = dark if _brightness(face) > 0.5 else light
            axes.text(column, line, text, ha="center", va="center", fontsize=sizes[0], color=ink, bbox=plate)


def _brightness(colour: str) -> float:
    """How bright a colour looks, from 0 to 1."""
    red, green, blue = to_rgb(colour)
    return 0.299 * red + 0.587 * green + 0.114 * blue


def _label_x(axes: Axes, panel: Sequence[Cell], look: Look, xs: Sequence[float], most: int) -> None:
    """Label x with a line of sizes, and below it a line for each axis that goes with x, with its name before it."""
    sizes = {cell.x: [cell.where[name] for name in look.paired] for cell in panel}
    columns = [int(column) for column in ticks(range(len(xs)), most)]
    texts = ["\n".join(map(short, [xs[column], *sizes[xs[column]]])) for column in columns]
    axes.set_xticks(columns, texts, fontsize=TICK_SIZE)
    if not look.paired:
        axes.set_xlabel(look.x)
        return
    names = "\n".join([look.x, *look.paired])
    write_beside(axes, names, (0, 0), (-8, -3.5), "axes fraction", ha="right", va="top", fontsize=TICK_SIZE)


def _has_room(panel: Sequence[Cell], look: Look, width: float, size: float) -> bool:
    """Whether every cell is wide enough for every winner's name and margin in this font size."""
    longest = max(text_width(text, size) for text in {"1.00x", *(look.names[cell.curve] for cell in panel)})
    return longest < 0.95 * width / len({cell.x for cell in panel})


def _legend(cells: Sequence[Cell], look: Look) -> list[Patch]:
    """Legend entries: the curves that lead a case, those with most wins first, each with its wins and ties. The last one
    explains the hatch and counts its cases."""
    first = first_places(cell.winner for cell in cells)
    wins, ties = ({curve: first[mark, curve] for curve in {cell.curve for cell in cells}} for mark in (FASTEST, TIED))
    entries = []
    for curve in sorted(wins, key=lambda curve: (-wins[curve], -ties[curve], curve)):
        counted = f"{wins[curve]} + {plural(ties[curve], 'tie')}" if ties[curve] else str(wins[curve])
        entries.append(Patch(color=look.styles[curve].colour, label=f"{look.names[curve]} {counted}"))
    marks = [cell.winner.mark for cell in cells]
    counts = [f"{mark} {MARKS[mark]} ({marks.count(mark)})" for mark in (TIED, UNCLEAR) if mark in marks]
    if counts:
        hatched = Patch(facecolor=look.theme.quiet, hatch=TIE_HATCH, edgecolor=look.theme.background, linewidth=0)
        hatched.set_label(", ".join(counts))
        entries.append(hatched)
    return entries


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
            _draw_choices(axes, panel, colours)
        finish(figure, title, caption, legend, LIGHT).savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()


def _pale(colour: str) -> str:
    return mix(colour, LIGHT.background, PALE)


def _dot(label: str, colour: str) -> Line2D:
    """A dot of the legend."""
    edge = LIGHT.background
    return Line2D([], [], label=label, marker="o", linestyle="", markeredgecolor=edge, color=colour, markersize=7)


def _draw_choices(axes: Axes, panel: ChoicePanel, colours: Mapping[str, str]) -> None:
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
