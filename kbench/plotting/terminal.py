"""Charts of characters, for readers without a screen for pictures. Each curve has a letter: a small one where a picture has a
hollow point. `plain` charts are ASCII without colours."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from string import ascii_uppercase

import pandas as pd
from matplotlib.ticker import LogLocator, MaxNLocator

from kbench.plotting.panels import lines
from kbench.plotting.panels.bars import bar_names, bars
from kbench.plotting.panels.heatmap import height, margin
from kbench.plotting.panels.look import Look
from kbench.plotting.panels.scale import logarithmic, short
from kbench.plotting.selection.pages import Page
from kbench.plotting.selection.points import ABSENT, COPY_CURVE, VALUE, hollow_flags, pool
from kbench.plotting.style.formatting import four_digits, size_text, title_of, wrap

COLOURS = ("blue", "red", "green", "magenta", "cyan", "orange")
LINES_OF_A_CHART, LEAST_WIDTH, MOST_WIDTH = 20, 40, 160
ASCII = str.maketrans({**dict(zip("│┤├┴┬┼─└┘┌┐·█", "|||+++-++++-#", strict=True)), "…": "...", "\N{MICRO SIGN}": "u"})


def charts(pages: Sequence[Page], look: Look, caption: str, width: int, *, kind: str, plain: bool) -> Iterator[str]:
    """A chart per panel, then the caption, in lines of `width` characters. `kind` is lines, bars or heatmap."""
    width = max(LEAST_WIDTH, min(width, MOST_WIDTH))
    for page in pages:
        for panel in page.panels:
            text = [wrap(title_of({**page.whole(look.titled), **panel.where}), width)]
            if kind == "heatmap":
                text += _winners(panel.points, look)
            elif kind == "lines" and lines.is_line(panel.points):
                text += _lines(panel.points, look, width, plain=plain)
            else:
                text += _bars(panel.points, look, width)
            yield "\n".join(text).translate(ASCII if plain else {})
    yield wrap(caption, width).translate(ASCII if plain else {})


def _lines(panel: pd.DataFrame, look: Look, width: int, *, plain: bool) -> list[str]:
    """A chart with a letter along each line, then a line per curve: its letter, name and last value, and what has no value."""
    import plotext  # type: ignore[import-untyped]  # slow to import, and most pictures are files

    figure, shown = plotext.figure, panel[panel["kind"] != ABSENT].sort_values("x")
    figure.clear()
    figure.theme("colorless")
    figure.plot_size(width, LINES_OF_A_CHART)
    xs = sorted(shown["x"].dropna().unique())
    bottom, top = lines.extent(panel, look, log=lines.wants_log(panel, look))
    across, up = (math.log2 if logarithmic(xs) else float), (math.log10 if bottom > 0 else float)
    every, legend = max(1, 4 * len(xs) // width), {}
    letters = itertools.cycle(zip(ascii_uppercase, itertools.cycle(COLOURS), strict=False))
    for place, ((curve, file), rows) in enumerate(shown.groupby(["curve", "file"])):
        letter, colour = ("=", "gray") if curve == COPY_CURVE else next(letters)
        line = pool(rows[rows["value"].notna() & rows["x"].notna()], "x")
        some, hollow = line.iloc[place % every :: every], line["hollow"].astype(bool)
        for points, sign in (
            (line, "." if plain else "braille"),
            (some[~hollow], letter),
            (some[hollow], letter.lower()),
        ):
            marker = plotext.marker(sign, colour)
            signal = figure.signal(list(map(across, points.index)), list(map(up, points["value"])), marker=marker)
            if len(points):
                figure.draw(signal.lines() if points is line else signal)
        outcomes = rows["status"].where(rows["kind"] != VALUE).mask(rows["suspect"], "suspect")
        notes = [four_digits(line["value"].iloc[-1])] if len(line) else []
        notes += [f"{outcome} at {look.x}={_sizes(sizes)}" for outcome, sizes in rows["x"].groupby(outcomes)]
        name = look.names[str(curve)] + f" ({file})" * (len(look.files) > 1)
        legend[f"  {letter}  {name}: {', '.join(notes)}"] = line["value"].iloc[-1] if len(line) else -math.inf
    ticks = xs[:: math.ceil(len(xs) / max(2, width // 10))]
    heights = (LogLocator(subs=(1, 2, 5), numticks=20) if bottom > 0 else MaxNLocator(6)).tick_values(bottom, top)
    heights = [tick for tick in heights if bottom <= tick <= top]
    figure.ruler("x").ticks(list(map(across, ticks)), [short(x) if across is math.log2 else f"{x:g}" for x in ticks])
    figure.ruler("x").lim(
        across(xs[0]), across(xs[-1]) + 0.03 * (across(xs[-1]) - across(xs[0]))
    )  # room for the last tick
    figure.ruler("y").ticks(list(map(up, heights)), [f"{tick:g}" for tick in heights])
    figure.ruler("y").lim(up(bottom), up(top))
    figure.axes(False, side=1)
    drawn = str(figure.build()).rstrip("\n")
    flags = (
        [f"  points in small letters have a flag: {' or '.join(sorted(hollow_flags(panel)))}"]
        if hollow_flags(panel)
        else []
    )
    entries = [*sorted(legend, key=lambda entry: -legend[entry]), *flags]
    chart = plotext.uncolorize(drawn) if plain else drawn
    return [look.metric.label, chart, look.x.rjust(width // 2), *(wrap(entry, width) for entry in entries)]


def _sizes(sizes: pd.Series[float]) -> str:
    return ", ".join(f"{size:g}" for size in sizes.unique()[:3]) + ", ..." * (sizes.nunique() > 3)


def _bars(panel: pd.DataFrame, look: Look, width: int) -> list[str]:
    """A line per curve: its name, a bar from zero, and its value or its status."""
    names, drawn = bar_names(panel, look), bars(panel, look)
    label, top = max(map(len, names), default=0), max((bar.value or 0.0 for bar in drawn), default=0.0) or 1.0
    room = max(8, width - label - 12)
    text = [
        f"{'█' * round(room * bar.value / top)} {four_digits(bar.value)}{' *' * bar.hollow}" if bar.value else bar.note
        for bar in drawn
    ]
    flags = [f"* {' or '.join(sorted(hollow_flags(panel)))}"] if hollow_flags(panel) else []
    return [look.metric.label, *(f"{name:>{label}} │{bar}" for name, bar in zip(names, text, strict=True)), *flags]


def _winners(panel: pd.DataFrame, look: Look) -> list[str]:
    """A line per case: its sizes, and the fastest with its margin."""
    rows = [[*filter(None, (look.x, look.y)), "fastest"]] + [
        [size_text(x), *([height(y)] if look.y else []), f"{look.names[curve]} {margin(ratio, tied, unclear)}"]
        for x, y, curve, ratio, tied, unclear in panel[["x", "y", "curve", "margin", "tied", "unclear"]].to_numpy()
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
