"""What a legend has to explain: curves, files, and the marks of rows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from matplotlib.lines import Line2D

from kbench.plotting.page.layout import LegendEntry
from kbench.plotting.panels import marks
from kbench.plotting.panels.look import Look
from kbench.plotting.selection.points import ABSENT, COPY_CURVE, MARKED, VALUE, hollow_flags
from kbench.plotting.style.formatting import natural


@dataclass
class LegendContents:
    """What the panels of a page show.

    curves   with their last value
    levels   curves that are a level across the panel
    hollow   flags of hollow points
    suspect  whether a value is suspect
    lost     statuses of rows without a time, by kind
    """

    curves: dict[str, float] = field(default_factory=dict)
    levels: set[str] = field(default_factory=set)
    hollow: set[str] = field(default_factory=set)
    suspect: bool = False
    lost: dict[str, set[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, of_lines: Iterable[pd.DataFrame], of_bars: Iterable[pd.DataFrame]) -> LegendContents:
        """For panels of lines and panels of bars. Bars have names and statuses beside them: only hollow ones need more."""
        contents = cls()
        for panel in of_lines:
            contents._add_lines(panel)
        for panel in of_bars:
            contents.hollow |= hollow_flags(panel)
        return contents

    def _add_lines(self, panel: pd.DataFrame) -> None:
        self.hollow |= hollow_flags(panel)
        self.suspect |= bool(panel.loc[panel["kind"] == VALUE, "suspect"].any())
        for kind in MARKED:
            if statuses := set(panel.loc[panel["kind"] == kind, "status"]):
                self.lost.setdefault(kind, set()).update(statuses)
        for name, group in panel[panel["kind"] != ABSENT].groupby("curve"):
            curve, ordered = str(name), group[group["value"].notna()].sort_values("x")
            self.curves[curve] = float(ordered["value"].iloc[-1]) if len(ordered) else self.curves.get(curve, -math.inf)
            if len(ordered) and ordered["x"].isna().all():
                self.levels.add(curve)

    def of_curves(self, look: Look) -> list[LegendEntry]:
        """Legend entries of the curves, the highest last value first, then of the files where there are several."""
        several = len(look.files) > 1
        entries: list[LegendEntry] = []
        for curve in sorted(natural(self.curves), key=lambda name: -self.curves[name]):
            style, level = look.styles[curve], curve in self.levels
            line: Any = "--" if level else "-" if several else style.line
            handle = Line2D([], [], color=style.colour, linestyle=line, **({} if level else marks.curve_marker(style)))
            entries.append((look.names[curve], handle))
        for file in look.files if several and self.curves else ():
            line = look.line(COPY_CURVE, file)
            entries.append((file, Line2D([], [], color=look.theme.ink, linestyle=line, linewidth=1.6)))
        return entries

    def of_marks(self, look: Look) -> list[LegendEntry]:
        """Legend entries of the marks. They are grey, because in the panels a mark has the colour of its provider."""
        grey, back = look.theme.muted, look.theme.background
        entries: list[LegendEntry] = []
        if self.hollow:
            ring = Line2D([], [], color=grey, marker="o", linestyle="", markerfacecolor=back, markeredgewidth=1.5)
            entries.append((" or ".join(sorted(self.hollow)), ring))
        if self.suspect:
            question = Line2D([], [], color=grey, marker=marks.QUESTION_MARK, linestyle="", markersize=9)
            entries.append(("suspect: implausible time", question))
        for kind in MARKED:
            if kind in self.lost:
                handle = Line2D([], [], color=grey, **marks.row_mark(kind))
                entries.append((", ".join(sorted(self.lost[kind])), handle))
        return entries
