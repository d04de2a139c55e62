"""Charts for a terminal, for readers without a screen for pictures, for instance over ssh.

Each curve has a letter. Colours repeat what the letters say. `plain` charts are ASCII without colours.
"""

from __future__ import annotations

import math
import string
from collections.abc import Iterator, Sequence

import pandas as pd

from kbench.plotting.panels import lines
from kbench.plotting.panels.bars import bars
from kbench.plotting.panels.heatmap import height, heights, margin
from kbench.plotting.panels.look import Look
from kbench.plotting.panels.scale import logarithmic
from kbench.plotting.selection.pages import Page
from kbench.plotting.selection.points import ABSENT, COPY_CURVE, VALUE, hollow_flags, pool
from kbench.plotting.style.formatting import four_digits, natural, size_text, title_of, wrap
from kbench.plotting.terminal.canvas import Canvas

LETTERS = string.ascii_uppercase
"""One for each curve. They are all capitals, because a small letter is a hollow point."""

COPY_MARK = "="
"""The copy control, in place of a letter."""

COLOURS = ("blue", "red", "green", "magenta", "cyan", "orange")
HEIGHT = 20
"""Of a chart, in lines."""

LEAST_WIDTH, MOST_WIDTH = 40, 160
"""In characters."""

ASCII = str.maketrans({**dict(zip("│┤├┴┬┼─└┘┌┐·█", "|||+++-++++-#", strict=True)), "…": "...", "\N{MICRO SIGN}": "u"})


def charts(
    pages: Sequence[Page], look: Look, caption: str, width: int, *, kind: str = "lines", plain: bool = False
) -> Iterator[str]:
    """A chart per panel, then the caption, in lines of `width` characters or LEAST_WIDTH. `kind` is lines, bars or heatmap."""
    width = max(LEAST_WIDTH, min(width, MOST_WIDTH))
    for page in pages:
        for panel in page.panels:
            title = title_of({**page.whole(look.titled), **panel.where})
            if kind == "heatmap":
                body = _winners(panel.points, look, width)
            elif kind == "lines" and lines.is_line(panel.points):
                body = _lines(panel.points, look, width, plain=plain)
            else:
                body = _bars(panel.points, look, width)
            yield _encoded(f"{wrap(title, width)}\n{body}", plain)
    yield _encoded(wrap(caption, width), plain)


def _lines(panel: pd.DataFrame, look: Look, width: int, *, plain: bool) -> str:
    """Lines with letters along them, small letters for hollow points, and below the chart what each letter is."""
    letters = _letters(panel, look)
    xs = sorted(panel.loc[panel["kind"] != ABSENT, "x"].dropna().unique())
    extent = lines.extent(panel, look, log=lines.wants_log(panel, look))
    canvas = Canvas(width, HEIGHT, x_log=logarithmic(xs), y_log=extent[0] > 0)
    every = max(1, len(xs) * 4 // width)
    for place, ((file, curve), letter) in enumerate(letters.items()):
        mine = panel[(panel["file"] == file) & (panel["curve"] == curve) & panel["value"].notna()]
        line = pool(mine[mine["x"].notna()], "x")
        colour = "gray" if curve == COPY_CURVE else COLOURS[place % len(COLOURS)]
        canvas.line(list(line.index), list(line["value"]), "." if plain else "braille", colour)
        lettered = line.iloc[place % every :: every]
        for symbol, points in ((letter, lettered[~lettered["hollow"]]), (letter.lower(), lettered[lettered["hollow"]])):
            canvas.points(list(points.index), list(points["value"]), symbol, colour)
    drawn = canvas.text(xs, *extent, plain=plain)
    return "\n".join([look.metric.label, drawn, look.x.rjust(width // 2), *_legend(panel, look, letters, width)])


def _letters(panel: pd.DataFrame, look: Look) -> dict[tuple[str, str], str]:
    """A letter for each curve of each file, in the order of their names. Curves beyond the last letter have none."""
    shown = panel[panel["kind"] != ABSENT]
    seen = set(zip(shown["file"], shown["curve"], strict=True))
    by_name = [(file, curve) for curve in natural({curve for _, curve in seen} - {COPY_CURVE}) for file in look.files]
    copies = {(file, COPY_CURVE): COPY_MARK for file in look.files if (file, COPY_CURVE) in seen}
    return copies | dict(zip((pair for pair in by_name if pair in seen), LETTERS, strict=False))


def _legend(panel: pd.DataFrame, look: Look, letters: dict[tuple[str, str], str], width: int) -> list[str]:
    """A line per curve, the highest last value first: letter, name, last value, and the sizes without a value."""
    shown = panel[panel["kind"] != ABSENT].sort_values("x")
    entries = []
    for (file, curve), letter in letters.items():
        mine = shown[(shown["file"] == file) & (shown["curve"] == curve)]
        values = mine["value"].dropna()
        notes = [four_digits(values.iloc[-1])] if len(values) else []
        notes += [f"suspect at {_sizes(mine[mine['suspect']], look)}"] if mine["suspect"].any() else []
        lost = mine[mine["kind"] != VALUE].groupby("status")
        notes += [f"{status} at {_sizes(rows, look)}" for status, rows in lost]
        last = float(values.iloc[-1]) if len(values) else -math.inf
        entries.append((last, f"  {letter}  {_name(curve, file, look)}: {', '.join(notes)}"))
    found = [text for _, text in sorted(entries, key=lambda entry: -entry[0])]
    if missing := len(shown[["file", "curve"]].drop_duplicates()) - len(letters):
        found.append(
            f"  {missing} more curve{'s are' if missing > 1 else ' is'} not drawn, because no letter is left; select curves "
            "with --where 'provider=...'"
        )
    if flags := hollow_flags(panel):
        found.append(f"  points in small letters have a flag: {' or '.join(sorted(flags))}")
    return [wrap(line, width) for line in found]


def _sizes(rows: pd.DataFrame, look: Look) -> str:
    xs = sorted(rows["x"].dropna().unique())
    shown = ", ".join(f"{x:g}" for x in xs[:3])
    return f"{look.x}={shown}" + (f" and {len(xs) - 3} more" if len(xs) > 3 else "")


def _name(curve: str, file: str, look: Look) -> str:
    return look.names[curve] if len(look.files) == 1 else f"{look.names[curve]} ({file})"


def _bars(panel: pd.DataFrame, look: Look, width: int) -> str:
    """A line per curve: its name, a bar from zero, and its value or its status."""
    ranked = bars(panel, look)
    names = [_name(bar.curve, bar.file, look) for bar in ranked]
    label = max(map(len, names), default=0)
    room = max(8, width - label - 12)
    top = max((bar.value for bar in ranked if bar.value is not None), default=1.0) or 1.0
    text = [look.metric.label]
    for name, bar in zip(names, ranked, strict=True):
        drawn = bar.note if bar.value is None else f"{'█' * round(room * bar.value / top)} {four_digits(bar.value)}"
        text.append(f"{name.rjust(label)} │{drawn}{' *' if bar.hollow else ''}")
    if flags := hollow_flags(panel):
        text.append(f"* {' or '.join(sorted(flags))}")
    return "\n".join(text)


def _winners(panel: pd.DataFrame, look: Look, width: int) -> str:
    """A table with a line per x and a column per y. Where that is too wide, each case has a line."""
    names, x_name, y_name = look.names, look.x, look.y
    cells = {
        (x, y): f"{names[curve]} {margin(ratio, tied, unclear)}"
        for x, y, curve, ratio, tied, unclear in panel[["x", "y", "curve", "margin", "tied", "unclear"]].itertuples(
            index=False
        )
    }
    xs, ys = sorted({x for x, _ in cells}), heights(panel)
    heads = [title_of({y_name: height(y)}) if y_name else "fastest" for y in ys]
    table = [[x_name, *heads], *([size_text(x), *(cells.get((x, y), "") for y in ys)] for x in xs)]
    if len(_table(table).splitlines()[0]) > width:
        table = [
            [x_name, y_name, "fastest"],
            *([size_text(x), height(y), cells[x, y]] for x in xs for y in ys if (x, y) in cells),
        ]
    return _table(table)


def _table(rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _encoded(text: str, plain: bool) -> str:
    return text.translate(ASCII) if plain else text
