"""Pictures as text in the terminal: lines and maps of winners in letters, and bars."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from string import ascii_lowercase, ascii_uppercase
from typing import Any

import plotext  # type: ignore[import-untyped]

from kbench.analysis.files import Source, load_sources
from kbench.errors import UsageError
from kbench.plotting import Choices, lines, pages_of
from kbench.plotting.lines import sorted_bars, value_text
from kbench.plotting.maps import Cell
from kbench.plotting.names import four_digits, size_text
from kbench.plotting.pages import COPY_CURVE, Look, Point, Series, Value, series_of
from kbench.plotting.scales import logarithmic, short, ticks, ticks_of_y
from kbench.text.table import NO_VALUE
from kbench.text.terminal import colours, print_paragraph, print_table, width

COLOURS = ("blue", "red", "green", "magenta", "cyan", "orange")

LETTERS = ascii_uppercase + ascii_lowercase

CHART_LINES, LONGEST_BAR, TICK_COLUMNS, SIGN_COLUMNS = 20, 40, 8, 4
"""The height of a chart with its axis, the length of the longest bar, and the room of a tick and of a sign along a line."""


def print_charts(files: Sequence[Source], choices: Choices, where: str) -> None:
    """Print results as text: a chart for each panel, then the caption. Raises as `write_pictures` does."""
    sources = load_sources(files, where)
    if choices.kind == "change":
        raise UsageError("--term cannot draw --kind change; `kbench compare` prints the changes")
    print_panel: dict[str, Callable[[Any, Look], None]] = {
        "lines": _print_lines,
        "bars": _print_bars,
        "heatmap": _print_winners,
    }
    for page, look in pages_of(sources, choices, as_text=True):
        for title, panel in zip(page.titles, page.panels, strict=True):
            print_paragraph(" · ".join(filter(None, [look.title(page), title])))
            print_panel[look.kind](panel, look)
            print()
    for line in look.caption.split("\n"):
        print_paragraph(line)


def _print_lines(points: Sequence[Point], look: Look) -> None:
    """A chart, and a table of its lines from the highest to the lowest: letter, name, last value, and what is wrong where."""
    panel = series_of(points, look)
    xs = lines.sizes_of(panel)
    panel.sort(key=lambda series: series.last, reverse=True)
    letters = iter(LETTERS)
    signs = ["=" if series.curve == COPY_CURVE else next(letters, "*") for series in panel]
    extent = lines.extent_of(panel, look, log=lines.wants_log(panel, look))
    print(f"{look.metric.label} by {look.x}")
    print(_chart([series.values for series in panel], signs, xs, extent))
    rows = []
    for sign, series in zip(signs, panel, strict=True):
        last = four_digits(series.last) if series.values else NO_VALUE
        rows.append((sign, series.name, last, _notes(series, look)))
    print_table(("", "provider", "last", ""), rows)


def _chart(
    curves: Sequence[Mapping[float, Value]],
    signs: Sequence[str],
    xs: Sequence[float],
    extent: tuple[float, float],
) -> str:
    """Lines with their sign at some of their points, neighbouring lines at different ones."""
    bottom, top = extent
    across: Callable[[float], float] = math.log2 if logarithmic(xs) else float
    up: Callable[[float], float] = math.log10 if bottom > 0 else float
    figure = plotext.figure
    figure.clear()
    figure.theme("colorless")
    figure.plot_size(width(), CHART_LINES)
    figure.axes(False, side=1)
    x_ticks = ticks(xs, width() // TICK_COLUMNS)
    figure.ruler("x").ticks([across(x) for x in x_ticks], [short(x) for x in x_ticks])
    figure.ruler("x").lim(across(xs[0]), across(xs[-1]) + 0.03 * (across(xs[-1]) - across(xs[0])))
    y_ticks = ticks_of_y(bottom, top)
    figure.ruler("y").ticks([up(y) for y in y_ticks], [f"{y:g}" for y in y_ticks])
    figure.ruler("y").lim(up(bottom), up(top))
    every = max(math.ceil(SIGN_COLUMNS * len(xs) / width()), min(3, len(xs) // 4))
    places = [[(across(x), up(value.value)) for x, value in curve.items()] for curve in curves]
    signed = [members[place % every :: every] for place, members in enumerate(places)]
    for places_of_curves, markers in ((places, ["braille"] * len(curves)), (signed, signs)):
        for members, marker, colour in zip(places_of_curves, markers, itertools.cycle(COLOURS), strict=False):
            if members:
                signal = figure.signal(*map(list, zip(*members, strict=True)), marker=plotext.marker(marker, colour))
                figure.draw(signal.lines() if marker == "braille" else signal)
    chart = str(figure.build())
    return chart if colours() else plotext.uncolorize(chart)


def _notes(series: Series, look: Look) -> str:
    """What is wrong with a curve: `host-bound at N=256; unsupported at N=512, 1024, 2048, ...`"""
    flags = lines.hollow_flags(series.points)
    places: dict[str, set[float]] = defaultdict(set)
    for x, points in series.by_x.items():
        for point in points:
            if point.value is not None and point.value.hollow:
                places[flags].add(x)
            elif not point.has_value:
                places[point.row.status.value].add(x)
            elif point.claimed is not None:
                places["suspect"].add(x)
    notes = []
    for outcome in sorted(places):
        sizes = [size_text(x) for x in sorted(places[outcome])]
        notes.append(f"{outcome} at {look.x}={', '.join(sizes[:3])}" + (", ..." if len(sizes) > 3 else ""))
    return "; ".join(notes)


def _print_bars(points: Sequence[Point], look: Look) -> None:
    """A line per bar: its name, its value or status, and the bar."""
    bars, flags = sorted_bars(points, look), lines.hollow_flags(points)
    longest = max((bar.whole.value for bar in bars if bar.whole), default=0.0) or 1.0
    rows = []
    for bar in bars:
        length = round(LONGEST_BAR * bar.whole.value / longest) if bar.whole else 0
        hollow = f" {flags}" if bar.whole and bar.whole.hollow else ""
        rows.append((bar.name, value_text(bar), "█" * length + hollow))
    print_table(("provider", look.metric.label, ""), rows)


def _print_winners(cells: Sequence[Cell], look: Look) -> None:
    """A map with the letter of the fastest curve of each case and its margin, and the letters. x, with the most values, runs
    down."""
    wins = Counter(cell.curve for cell in cells)
    letters = dict(zip([curve for curve, _ in wins.most_common()], itertools.cycle(LETTERS), strict=False))
    texts = {(cell.x, cell.y): f"{letters[cell.curve]} {cell.margin}" for cell in cells}
    xs, ys = (sorted({*values}) for values in zip(*texts, strict=True))
    header = [look.x, "fastest"]
    if look.y:
        heights = [y if isinstance(y, str) else size_text(y) for y in ys]
        header = [f"{look.x} \\ {look.y}", *heights]
    print_table(header, [[size_text(x), *(texts.get((x, y), "") for y in ys)] for x in xs])
    for curve, letter in letters.items():
        print(f"{letter}  {look.names[curve]}")
