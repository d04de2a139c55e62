"""Pictures as text in the terminal: lines and maps of winners in letters, and bars."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from string import ascii_lowercase, ascii_uppercase

import pandas as pd
import plotext  # type: ignore[import-untyped]
from matplotlib.ticker import LogLocator, MaxNLocator

from kbench.analysis.files import ResultsFile
from kbench.errors import UsageError
from kbench.plotting import heatmap, lines
from kbench.plotting.bars import bar_names, bars
from kbench.plotting.look import Look
from kbench.plotting.names import four_digits, size_text, title_of
from kbench.plotting.points import ABSENT, COPY_CURVE, VALUE, hollow_flags, pool
from kbench.plotting.results import Choices, pages_of
from kbench.plotting.scales import logarithmic, short, ticks
from kbench.text.table import NO_VALUE
from kbench.text.terminal import colours, print_paragraph, print_table, width

COLOURS = ("blue", "red", "green", "magenta", "cyan", "orange")

LETTERS = ascii_uppercase + ascii_lowercase

CHART_LINES, LONGEST_BAR, TICK_COLUMNS, SIGN_COLUMNS = 20, 40, 8, 4
"""The height of a chart with its axis, the length of the longest bar, and the room of a tick and of a sign along a line."""


def print_charts(sources: Sequence[ResultsFile], choices: Choices) -> None:
    """Print a chart for each panel, then the caption. Raises UsageError and ResultsError as a picture does."""
    if choices.kind == "change":
        raise UsageError("--term cannot draw --kind change; `kbench compare` prints the changes")
    pages = list(pages_of(sources, choices, as_text=True))
    for page, look, _ in pages:
        for panel in page.panels:
            print_paragraph(title_of({**page.whole(look.titled), **panel.where}))
            if choices.kind == "heatmap":
                _print_winners(panel.points, look)
            elif choices.kind == "bars" or not lines.is_line(panel.points):
                _print_bars(panel.points, look)
            else:
                _print_lines(panel.points, look)
            print()
    _, _, caption = pages[-1]
    for line in caption.split("\n"):
        print_paragraph(line)


def _print_lines(panel: pd.DataFrame, look: Look) -> None:
    """A chart, and a table of its lines from the highest to the lowest: letter, name, last value, and what is wrong where."""
    shown = panel[panel["kind"] != ABSENT]
    xs = sorted(shown["x"].dropna().unique())
    curves = []
    for (file, curve), rows in shown.groupby(["file", "curve"]):
        valued = rows[rows["value"].notna()]
        line = pool(valued, "x")["value"]
        if line.index.isna().any():  # the curve lacks the parameter that runs along x
            line = pd.Series(valued["value"].median(), xs)
        name = look.names[str(curve)] + (f" · {file}" if len(look.files) > 1 else "")
        curves.append((line.iloc[-1] if len(line) else -math.inf, curve == COPY_CURVE, name, line, _notes(rows, look)))
    curves.sort(key=lambda curve: -curve[0])
    letters = iter(LETTERS)
    signs = ["=" if is_copy else next(letters, "*") for _, is_copy, *_ in curves]
    extent = lines.extent_of(panel, look, None, log=lines.wants_log(panel, look))
    print(f"{look.metric.label} by {look.x}")
    print(_chart([line for *_, line, _ in curves], signs, xs, extent))
    table = [
        (sign, name, four_digits(last) if len(line) else NO_VALUE, notes)
        for sign, (last, _, name, line, notes) in zip(signs, curves, strict=True)
    ]
    print_table(("", "provider", "last", ""), table, numeric=("last",))


def _chart(curves: Sequence[pd.Series[float]], signs: Sequence[str], xs: list[float], extent: lines.Extent) -> str:
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
    locator = LogLocator(subs=(1, 2, 5), numticks=CHART_LINES) if bottom > 0 else MaxNLocator(6)
    y_ticks = [y for y in locator.tick_values(bottom, top) if bottom <= y <= top]
    figure.ruler("y").ticks([up(y) for y in y_ticks], [f"{y:g}" for y in y_ticks])
    figure.ruler("y").lim(up(bottom), up(top))
    every = max(math.ceil(SIGN_COLUMNS * len(xs) / width()), min(3, len(xs) // 4))
    signed = [curve.iloc[place % every :: every] for place, curve in enumerate(curves)]
    for points_of_curves, markers in ((curves, ["braille"] * len(curves)), (signed, signs)):
        for points, marker, colour in zip(points_of_curves, markers, itertools.cycle(COLOURS), strict=False):
            if len(points):
                at = [across(x) for x in points.index], [up(y) for y in points]
                signal = figure.signal(*at, marker=plotext.marker(marker, colour))
                figure.draw(signal.lines() if marker == "braille" else signal)
    chart = str(figure.build())
    return chart if colours() else plotext.uncolorize(chart)


def _notes(rows: pd.DataFrame, look: Look) -> str:
    """What is wrong with a curve: `host-bound at N=256; unsupported at N=512, 1024, 2048, ...`"""
    outcomes = rows["status"].where(rows["kind"] != VALUE).mask(rows["suspect"], "suspect")
    if flags := hollow_flags(rows):
        outcomes = outcomes.mask(rows["hollow"] & rows["value"].notna(), " or ".join(sorted(flags)))
    notes = []
    for outcome, group in rows.groupby(outcomes):
        sizes = [size_text(x) for x in sorted(group["x"].dropna().unique())]
        notes.append(f"{outcome} at {look.x}={', '.join(sizes[:3])}" + (", ..." if len(sizes) > 3 else ""))
    return "; ".join(notes)


def _print_bars(panel: pd.DataFrame, look: Look) -> None:
    """A line per bar: its name, its value or status, and the bar."""
    drawn, flags = bars(panel, look), " or ".join(sorted(hollow_flags(panel)))
    longest = max((bar.value or 0.0 for bar in drawn), default=0.0) or 1.0
    rows = []
    for name, bar in zip(bar_names(panel, look), drawn, strict=True):
        length = round(LONGEST_BAR * (bar.value or 0.0) / longest)
        value = bar.note if bar.value is None else four_digits(bar.value)
        rows.append((name, value, "█" * length + f" {flags}" * bar.hollow))
    print_table(("provider", look.metric.label, ""), rows, numeric=(look.metric.label,))


def _print_winners(cells: pd.DataFrame, look: Look) -> None:
    """A map with the letter of the fastest curve of each case and its margin, and the names of the letters. x runs down: it has
    the most values."""
    letters = dict(zip(cells["curve"].value_counts().index, itertools.cycle(LETTERS), strict=False))
    signs = [heatmap.margin(*margin) for margin in zip(cells["margin"], cells["tied"], cells["unclear"], strict=True)]
    texts = cells["curve"].map(letters) + " " + pd.Series(signs, cells.index)
    table = cells.assign(text=texts).pivot_table("text", "x", "y", aggfunc=" ".join).fillna("")
    heights = [y if isinstance(y, str) else size_text(y) for y in table.columns] if look.y else ["fastest"]
    header = [f"{look.x} \\ {look.y}" if look.y else look.x, *heights]
    print_table(header, [(size_text(x), *row) for x, row in zip(table.index, table.to_numpy(), strict=True)])
    for curve, letter in letters.items():
        print(f"{letter}  {look.names[curve]}")
