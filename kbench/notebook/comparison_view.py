"""A comparison in a notebook: one line, an HTML table, and a data frame."""

from __future__ import annotations

import html as escaping
from collections.abc import Iterable, Sequence
from dataclasses import fields

import pandas as pd

from kbench.comparison import exports, report
from kbench.comparison.model import Comparison, JudgedRow
from kbench.comparison.verdict import Verdict

MAX_TABLE_ROWS = 100
"""The most rows of the table. `ComparisonView.frame` has all of them."""

LONGEST_TEXT = 300
"""The most characters of a cell."""

SHORT_CELL = 40
"""Longer cells are wrapped."""

PRINTED_WIDTH = 120
"""Columns of the text of a comparison."""

NUMBER_COLUMNS = ("ratio", "ci_low", "ci_high", "q", "old", "new")

_COLOURS = {"!": "#c0392b", "+": "#1e8449", "?": "#9a6700", "x": "#9a6700"}
"""By glyph. They are legible on white and on black."""


class ComparisonView(Comparison):
    """A comparison that a notebook displays. `kbench.compare` returns it."""

    @classmethod
    def of(cls, comparison: Comparison) -> ComparisonView:
        return cls(**{field.name: getattr(comparison, field.name) for field in fields(comparison) if field.init})

    @property
    def frame(self) -> pd.DataFrame:
        """One row for each of `rows`, with the columns of `--export csv`.

        Axes are Int64 or text. `ratio`, `ci_low`, `ci_high`, `q`, `old` and `new` are float64, NaN where unknown. The
        numbers of sessions are int64.
        """
        names = exports.column_names(self)
        cells = [exports.row_cells(row, self) for row in self.rows]
        frame: pd.DataFrame = pd.DataFrame({name: [row[name] for row in cells] for name in names})
        for name in names:
            if name in NUMBER_COLUMNS:
                frame[name] = frame[name].astype("float64")
            elif name.endswith("_sessions"):
                frame[name] = frame[name].astype("int64")
            elif cells and all(type(row[name]) is int for row in cells):
                frame[name] = frame[name].astype("Int64")
        return frame

    def __repr__(self) -> str:
        """`<Comparison pr.csv against main.csv: 1 slower, 46 same>`"""
        return f"<Comparison {report.title(self)}: {report.headline(self)}>"

    def __str__(self) -> str:
        """What `kbench compare` prints."""
        return report.text(self, PRINTED_WIDTH)

    def _repr_html_(self) -> str:
        return html(self)


def html(comparison: Comparison) -> str:
    """An HTML table, changes first. Text from files is escaped."""
    parts = [f"<p><b>{_text(report.title(comparison))}</b><br>{_text(report.headline(comparison))}</p>"]
    notes = [] if comparison.nothing_common else [*report.drifts(comparison), report.geomean(comparison)]
    if notes:
        parts.append(f"<p>{'<br>'.join(map(_text, notes))}</p>")
    room = 0 if comparison.nothing_common else MAX_TABLE_ROWS
    for changed, members in report.sections(comparison.rows):
        fitting, room = members[:room], max(0, room - len(members))
        if fitting:
            parts.append((_table if changed else _groups)(fitting, comparison))
    if not comparison.nothing_common and (hidden := len(comparison.rows) - MAX_TABLE_ROWS) > 0:
        parts.append(f"<p>{hidden} more rows are in <code>.frame</code></p>")
    return f'<div class="tex2jax_ignore mathjax_ignore">{"".join(parts)}</div>'  # dollar signs must not start a formula


def _table(rows: Sequence[JudgedRow], comparison: Comparison) -> str:
    table = report.row_table(rows, comparison)
    body = [
        [
            _verdict(row.verdict) if head == "verdict" else _number(cell) if head in table.right else _cell(cell)
            for head, cell in zip(table.header, cells, strict=True)
        ]
        for row, cells in zip(rows, table.rows, strict=True)
    ]
    return _rows(table.header, body)


def _groups(rows: Sequence[JudgedRow], comparison: Comparison) -> str:
    body = [
        [_verdict(group.first.verdict), _cell(group.who), _cell(group.extent), _cell(group.why)]
        for group in report.grouped(rows, comparison)
    ]
    return _rows(["verdict", "provider", "cases", "reason"], body)


def _rows(heads: Iterable[str], body: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{_text(name)}</th>" for name in heads)
    lines = "".join(f"<tr>{''.join(cells)}</tr>" for cells in body)
    return f"<table><tr>{head}</tr>{lines}</table>"


def _verdict(verdict: Verdict) -> str:
    colour = f";color:{_COLOURS[verdict.glyph]}" if verdict.glyph in _COLOURS else ""
    return f'<td style="text-align:left;white-space:nowrap{colour}">{verdict.glyph} {verdict}</td>'


def _cell(text: str) -> str:
    whole = "" if len(text) > SHORT_CELL else ";white-space:nowrap"
    return f'<td style="text-align:left{whole}">{_text(text)}</td>'


def _number(text: str) -> str:
    return f'<td style="text-align:right;white-space:nowrap">{_text(text)}</td>'


def _text(text: str) -> str:
    return escaping.escape(text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]} ...")
