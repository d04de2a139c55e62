"""What a legend has to explain: curves, files, and the marks of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from matplotlib.lines import Line2D

from kbench.plotting.page.layout import Entry
from kbench.plotting.selection.points import ABSENT, COPY, VALUE, raised
from kbench.plotting.style import marks
from kbench.plotting.style.look import Look
from kbench.plotting.style.words import natural


@dataclass
class Key:
    """What panels show and needs a name: curves with their last value, those of them that are levels across the panel,
    flags of hollow points, and the statuses of rows without a time, by kind."""

    curves: dict[str, float] = field(default_factory=dict)
    levels: set[str] = field(default_factory=set)
    hollow: set[str] = field(default_factory=set)
    suspect: bool = False
    lost: dict[str, set[str]] = field(default_factory=dict)

    def note_bars(self, panel: pd.DataFrame) -> None:
        """Take in a panel of bars. They have their names beside them, and words where a value is missing."""
        self.hollow |= raised(panel)

    def note_lines(self, panel: pd.DataFrame) -> None:
        """Take in a panel of lines."""
        self.hollow |= raised(panel)
        self.suspect |= bool(panel.loc[panel["kind"] == VALUE, "suspect"].any())
        for kind in marks.MARKS:
            if statuses := set(panel.loc[panel["kind"] == kind, "status"]):
                self.lost.setdefault(kind, set()).update(statuses)
        for name, group in panel[panel["kind"] != ABSENT].groupby("curve"):
            curve, ordered = str(name), group[group["value"].notna()].sort_values("x")
            self.curves[curve] = float(ordered["value"].iloc[-1]) if len(ordered) else self.curves.get(curve, -math.inf)
            if len(ordered) and ordered["x"].isna().all():
                self.levels.add(curve)

    def of_curves(self, look: Look) -> list[Entry]:
        """Legend entries of the curves, the highest last value first, and of the files where there are several."""
        several = len(look.files) > 1
        entries: list[Entry] = []
        for curve in sorted(natural(self.curves), key=lambda name: -self.curves[name]):
            style, level = look.styles[curve], curve in self.levels
            line: Any = "--" if level else "-" if several else style.line
            handle = Line2D([], [], color=style.colour, linestyle=line, **({} if level else marks.of_curve(style)))
            entries.append((look.names[curve], handle))
        for file in look.files if several and self.curves else ():
            line = look.line(COPY, file)
            entries.append((file, Line2D([], [], color=look.theme.ink, linestyle=line, linewidth=1.6)))
        return entries

    def of_marks(self, look: Look) -> list[Entry]:
        """Legend entries of the marks, in grey: their colour is that of the provider."""
        grey, back = look.theme.muted, look.theme.background
        entries: list[Entry] = []
        if self.hollow:
            ring = Line2D([], [], color=grey, marker="o", linestyle="", markerfacecolor=back, markeredgewidth=1.5)
            entries.append((" or ".join(sorted(self.hollow)), ring))
        if self.suspect:
            question = Line2D([], [], color=grey, marker=marks.SUSPECT, linestyle="", markersize=9)
            entries.append(("suspect: faster than memory allows", question))
        for kind in marks.MARKS:
            if kind in self.lost:
                handle = Line2D([], [], color=grey, **marks.of_kind(kind))
                entries.append((", ".join(sorted(self.lost[kind])), handle))
        return entries
