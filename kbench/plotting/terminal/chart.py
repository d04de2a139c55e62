"""Charts for a terminal, for people who are on the other end of an ssh connection.

A curve is a letter. Colour is added on a terminal and says nothing that the letters do not; `plain` text is ASCII.
"""

from __future__ import annotations

import math
import string
from collections.abc import Iterator

import pandas as pd

from kbench.plotting.panels import lines
from kbench.plotting.panels.bars import bars
from kbench.plotting.panels.heatmap import height, heights, margin
from kbench.plotting.panels.scale import logarithmic
from kbench.plotting.plan import Plan
from kbench.plotting.selection.points import ABSENT, COPY, VALUE, pool, raised
from kbench.plotting.style.look import Look
from kbench.plotting.style.words import describe, figures, natural, wrap
from kbench.plotting.terminal.canvas import Canvas

LETTERS = string.ascii_uppercase + string.digits
COPIES = "="
COLOURS = ("blue", "red", "green", "magenta", "cyan", "orange")
HEIGHT = 20
NARROWEST, WIDEST = 40, 160

ASCII = str.maketrans({**dict(zip("│┤├┴┬┼─└┘┌┐·█", "|||+++-++++-#", strict=True)), "…": "...", "\N{MICRO SIGN}": "u"})


def charts(planned: Plan, width: int, *, plain: bool) -> Iterator[str]:
    """A chart per panel, in lines of at most `width` characters (NARROWEST at least), and the caption."""
    width = max(NARROWEST, min(width, WIDEST))
    for page in planned.pages:
        for panel in page.panels:
            title = describe({**page.whole(planned.titled), **panel.where})
            if planned.kind == "heatmap":
                body = _winners(panel.points, planned, width)
            elif planned.kind == "lines" and lines.is_line(panel.points):
                body = _lines(panel.points, planned.look, width, plain=plain)
            else:
                body = _bars(panel.points, planned.look, width)
            yield _encoded(f"{wrap(title, width)}\n{body}", plain)
    yield _encoded(wrap(planned.caption, width), plain)


def _lines(panel: pd.DataFrame, look: Look, width: int, *, plain: bool) -> str:
    """Letters along lines, small ones where a time says little, and below them what each letter is."""
    letters = _letters(panel, look)
    xs = sorted(panel.loc[panel["kind"] != ABSENT, "x"].dropna().unique())
    extent = lines.extent(panel, look, log=lines.wants_log(panel, look))
    canvas = Canvas(width, HEIGHT, x_log=logarithmic(xs), y_log=extent[0] > 0)
    every = max(1, len(xs) * 4 // width)
    for place, ((file, curve), letter) in enumerate(letters.items()):
        mine = panel[(panel["file"] == file) & (panel["curve"] == curve) & panel["value"].notna()]
        line = pool(mine[mine["x"].notna()], "x")
        colour = "gray" if curve == COPY else COLOURS[place % len(COLOURS)]
        canvas.line(list(line.index), list(line["value"]), "." if plain else "braille", colour)
        lettered = line.iloc[place % every :: every]
        for symbol, points in ((letter, lettered[~lettered["hollow"]]), (letter.lower(), lettered[lettered["hollow"]])):
            canvas.points(list(points.index), list(points["value"]), symbol, colour)
    drawn = canvas.text(xs, *extent, plain=plain)
    return "\n".join([look.metric.label, drawn, look.x.rjust(width // 2), *_legend(panel, look, letters, width)])


def _letters(panel: pd.DataFrame, look: Look) -> dict[tuple[str, str], str]:
    """A letter for each curve of each file, by name; the copy control has its own, and none is left for the 37th."""
    shown = panel[panel["kind"] != ABSENT]
    seen = set(zip(shown["file"], shown["curve"], strict=True))
    by_name = [(file, curve) for curve in natural({curve for _, curve in seen} - {COPY}) for file in look.files]
    copies = {(file, COPY): COPIES for file in look.files if (file, COPY) in seen}
    return copies | dict(zip((pair for pair in by_name if pair in seen), LETTERS, strict=False))


def _legend(panel: pd.DataFrame, look: Look, letters: dict[tuple[str, str], str], width: int) -> list[str]:
    """A line per curve, the highest last value first: its letter, name, last value and what happened to it."""
    shown = panel[panel["kind"] != ABSENT].sort_values("x")
    entries = []
    for (file, curve), letter in letters.items():
        mine = shown[(shown["file"] == file) & (shown["curve"] == curve)]
        values = mine["value"].dropna()
        notes = [figures(values.iloc[-1])] if len(values) else []
        notes += [f"suspect at {_sizes(mine[mine['suspect']], look)}"] if mine["suspect"].any() else []
        lost = mine[mine["kind"] != VALUE].groupby("status")
        notes += [f"{status} at {_sizes(rows, look)}" for status, rows in lost]
        last = float(values.iloc[-1]) if len(values) else -math.inf
        entries.append((last, f"  {letter}  {_name(curve, file, look)}: {', '.join(notes)}"))
    found = [text for _, text in sorted(entries, key=lambda entry: -entry[0])]
    if missing := len(shown[["file", "curve"]].drop_duplicates()) - len(letters):
        found.append(f"  {missing} more curves have no letter left; choose with --where 'provider=...'")
    if flags := raised(panel):
        found.append(f"  small letters: {' or '.join(sorted(flags))}")
    return [wrap(line, width) for line in found]


def _sizes(rows: pd.DataFrame, look: Look) -> str:
    xs = sorted(rows["x"].dropna().unique())
    shown = ", ".join(f"{x:g}" for x in xs[:3])
    return f"{look.x}={shown}" + (f" and {len(xs) - 3} more" if len(xs) > 3 else "")


def _name(curve: str, file: str, look: Look) -> str:
    return look.names[curve] if len(look.files) == 1 else f"{look.names[curve]} ({file})"


def _bars(panel: pd.DataFrame, look: Look, width: int) -> str:
    """A line per curve: its name, a bar from zero, its value; or why it has none."""
    ranked = bars(panel, look)
    names = [_name(bar.curve, bar.file, look) for bar in ranked]
    label = max(map(len, names), default=0)
    room = max(8, width - label - 12)
    top = max((bar.value for bar in ranked if bar.value is not None), default=1.0) or 1.0
    text = [look.metric.label]
    for name, bar in zip(names, ranked, strict=True):
        drawn = bar.note if bar.value is None else f"{'█' * round(room * bar.value / top)} {figures(bar.value)}"
        text.append(f"{name.rjust(label)} │{drawn}{' *' if bar.hollow else ''}")
    if flags := raised(panel):
        text.append(f"* {' or '.join(sorted(flags))}")
    return "\n".join(text)


def _winners(panel: pd.DataFrame, planned: Plan, width: int) -> str:
    """A table: a line per x and a column per y or, where that is too wide, a line for each of both."""
    names, x_name, y_name = planned.look.names, planned.look.x, planned.y
    cells = {
        (x, y): f"{names[curve]} {margin(ratio, tied, unclear)}"
        for x, y, curve, ratio, tied, unclear in panel[["x", "y", "curve", "margin", "tied", "unclear"]].itertuples(
            index=False
        )
    }
    xs, ys = sorted({x for x, _ in cells}), heights(panel)
    heads = [describe({y_name: height(y)}) if y_name else "fastest" for y in ys]
    table = [[x_name, *heads], *([f"{x:.0f}", *(cells.get((x, y), "") for y in ys)] for x in xs)]
    if len(_table(table).splitlines()[0]) > width:
        table = [
            [x_name, y_name, "fastest"],
            *([f"{x:.0f}", height(y), cells[x, y]] for x in xs for y in ys if (x, y) in cells),
        ]
    return _table(table)


def _table(rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _encoded(text: str, plain: bool) -> str:
    return text.translate(ASCII) if plain else text
