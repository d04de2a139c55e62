"""What a notebook displays: a comparison as a line, a table and a data frame, and the pictures of `kbench.plot`."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

import pandas as pd

from kbench.comparison import exports, report
from kbench.comparison.model import Comparison, JudgedRow

PRINTED_WIDTH = 120
"""Columns of the text of a comparison."""

MOST_ROWS = 100
"""Of the table in a notebook. `ComparisonView.frame` has all rows."""

NUMBER_COLUMNS = ("ratio", "ci_low", "ci_high", "q", "old", "new")


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
        return self._frame(self.rows)

    def _frame(self, rows: Iterable[JudgedRow]) -> pd.DataFrame:
        cells = [exports.row_cells(row, self) for row in rows]
        frame: pd.DataFrame = pd.DataFrame({name: [row[name] for row in cells] for name in cells[0]})
        for name in cells[0]:
            if name in NUMBER_COLUMNS:
                frame[name] = frame[name].astype("float64")
            elif name.endswith("_sessions"):
                frame[name] = frame[name].astype("int64")
            elif all(type(row[name]) is int for row in cells):
                frame[name] = frame[name].astype("Int64")
        return frame

    def __repr__(self) -> str:
        """`<Comparison pr.csv against main.csv: 1 slower, 46 same>`"""
        return f"<Comparison {report.title(self)}: {report.headline(self)}>"

    def __str__(self) -> str:
        """What `kbench compare` prints."""
        return report.text(self, PRINTED_WIDTH)

    def _repr_html_(self) -> str:
        """The headline and a table of the rows, those that need attention first. What a file says is text, and its dollar signs
        start no formula."""
        head = "<br>".join(html.escape(line) for line in (report.title(self), report.headline(self)))
        rows = report.ordered(self)
        frame = self._frame(rows[:MOST_ROWS]).replace("", pd.NA).dropna(axis="columns", how="all")
        table = frame.to_html(index=False, na_rep="", float_format="{:.4g}".format, border=0)
        more = f"<p>{len(rows) - MOST_ROWS} more rows are in <code>.frame</code></p>" if len(rows) > MOST_ROWS else ""
        return f'<div class="tex2jax_ignore mathjax_ignore"><p>{head}</p>{table}{more}</div>'


class Pictures(list[Path]):
    """Paths of pictures. A notebook shows each once, as PNG if there is one, else as SVG. Of a PDF it shows the path."""

    def _repr_html_(self) -> str:
        best = {
            path.with_suffix(""): path for suffix in (".pdf", ".svg", ".png") for path in self if path.suffix == suffix
        }
        return "".join(map(_shown, best.values()))


def _shown(path: Path) -> str:
    if path.suffix == ".pdf":
        return f"<p>{html.escape(str(path))}</p>"
    kind = "image/png" if path.suffix == ".png" else "image/svg+xml"
    picture = base64.b64encode(path.read_bytes()).decode()
    return f'<img alt="{html.escape(path.name)}" src="data:{kind};base64,{picture}">'
