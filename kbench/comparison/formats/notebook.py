"""A comparison in a notebook: one line, a table in HTML, and a frame."""

from __future__ import annotations

import html as escaping
from collections.abc import Iterable, Sequence

import pandas as pd

from kbench.comparison import Comparison
from kbench.comparison.formats import csv_table
from kbench.comparison.presentation import header, rows
from kbench.comparison.presentation.groups import grouped, sections
from kbench.comparison.presentation.table import numbers
from kbench.comparison.presentation.words import GLYPHS, plain
from kbench.comparison.verdict import Verdict
from kbench.text.printable import printable

MOST_ROWS = 100
"""Rows of the table. `Comparison.frame` has all of them."""

LONGEST = 300
"""Characters of a cell."""

NUMBERS = ("ratio", "ci_low", "ci_high", "q", "old", "new")

_COLOURS = {"!": "#c0392b", "+": "#1e8449", "?": "#9a6700", "x": "#9a6700"}
"""By glyph, legible on white and on black."""


def line(comparison: Comparison) -> str:
    """`<Comparison pr.csv against main.csv: 1 slower, 46 same>`"""
    return f"<Comparison {printable(header.title(comparison), LONGEST)}: {header.headline(comparison)}>"


def frame(comparison: Comparison) -> pd.DataFrame:
    names = csv_table.columns(comparison)
    cells = [csv_table.cells(row, comparison) for row in comparison.rows]
    found: pd.DataFrame = pd.DataFrame({name: [row[name] for row in cells] for name in names})
    for name in names:
        if name in NUMBERS:
            found[name] = found[name].astype("float64")
        elif name.endswith("_sessions"):
            found[name] = found[name].astype("int64")
        elif cells and all(type(row[name]) is int for row in cells):
            found[name] = found[name].astype("Int64")
    return found


def html(comparison: Comparison) -> str:
    """What changed first. Everything from a file is text here, whatever it looks like."""
    parts = [f"<p><b>{_text(header.title(comparison))}</b><br>{_text(header.headline(comparison))}</p>"]
    notes = [] if comparison.nothing_common else [*header.drifts(comparison), *header.geomeans(comparison)]
    if notes:
        parts.append(f"<p>{'<br>'.join(map(_text, notes))}</p>")
    common, left = rows.shared(comparison), 0 if comparison.nothing_common else MOST_ROWS
    for changed, members in sections(comparison.rows):
        shown, left = members[:left], max(0, left - len(members))
        if shown:
            parts.append((_table if changed else _groups)(shown, comparison, common))
    if not comparison.nothing_common:
        parts += [f"<p>{_text(note)}</p>" for note in header.footnotes(comparison)]
        if (hidden := len(comparison.rows) - MOST_ROWS) > 0:
            parts.append(f"<p>{hidden} rows more in <code>.frame</code></p>")
    return f'<div class="tex2jax_ignore mathjax_ignore">{"".join(parts)}</div>'  # a dollar sign begins no formula


def _table(shown: Sequence[Verdict], comparison: Comparison, common: dict[str, str]) -> str:
    names = [rows.brief(rows.distinct(row, comparison, common)) for row in shown]
    told = numbers(shown, comparison)
    places = rows.repeated(shown)
    own = any(row.reason and row.reason not in places for row in shown)
    body = [
        [
            _verdict(row.word, f" ({places[row.reason]})" if row.reason in places else ""),
            *map(_cell, name.values()),
            *map(_number, cells.values()),
            *([_long("" if row.reason in places else plain(row.reason))] if own else []),
        ]
        for row, name, cells in zip(shown, names, told, strict=True)
    ]
    below = "".join(f"<p>({place}) {_text(reason)}</p>" for reason, place in places.items())
    return _rows(["verdict", *names[0], *told[0], *(["reason"] if own else [])], body) + below


def _groups(shown: Sequence[Verdict], comparison: Comparison, common: dict[str, str]) -> str:
    body = [
        [_verdict(group.word), _cell(group.who), _cell(group.extent), _long(group.why)]
        for group in grouped(shown, comparison, common)
    ]
    return _rows(["verdict", "provider", "cases", "reason"], body)


def _rows(heads: Iterable[str], body: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{_text(name)}</th>" for name in heads)
    lines = "".join(f"<tr>{''.join(cells)}</tr>" for cells in body)
    return f"<table><tr>{head}</tr>{lines}</table>"


def _verdict(word: str, mark: str = "") -> str:
    colour = f";color:{_COLOURS[GLYPHS[word]]}" if GLYPHS[word] in _COLOURS else ""
    return f'<td style="text-align:left;white-space:nowrap{colour}">{GLYPHS[word]} {word}{mark}</td>'


def _cell(text: str) -> str:
    return f'<td style="text-align:left;white-space:nowrap">{_text(text)}</td>'


def _long(text: str) -> str:
    return f'<td style="text-align:left">{_text(text)}</td>'


def _number(text: str) -> str:
    return f'<td style="text-align:right;white-space:nowrap">{_text(text)}</td>'


def _text(text: str) -> str:
    return escaping.escape(printable(text, LONGEST))
