"""How a verdict looks: a mark of its own, so that the picture reads in grey too, and a colour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib.lines import Line2D

from kbench.comparison.verdict import WORDS
from kbench.plotting.page.layout import Entry
from kbench.plotting.style.marks import SUSPECT
from kbench.plotting.style.theme import Theme

ALARM, GOOD = 1, 2
"""Places in a theme's colours: of what wants attention, and of what is welcome. The report's page has the same two."""

_MARKS: dict[str, Any] = {
    "same": "o", "unclear": "o", "failed": (6, 2, 0), "missing": "x", "suspect": SUSPECT,
    "fixed": "*", "new": "P", "incomparable": "|", "untimed": "_",
}  # fmt: skip
_ALARMING = ("slower", "failed", "missing", "suspect")
_WELCOME = ("faster", "fixed", "new")
_STROKES = ("failed", "missing", "incomparable", "untimed")
"""Verdicts whose mark is made of strokes, and has no face to fill."""

_SIZES = {"same": 5.0, "unclear": 6.0, "fixed": 9.5, "suspect": 9.0}
SIZE = 7.0


@dataclass(frozen=True)
class Looks:
    """Of all verdicts of a panel. The triangles of `slower` and `faster` point to where the change is drawn: up or down,
    or along x if `sideways`. `more_is_better` says whether up is faster."""

    theme: Theme
    more_is_better: bool
    sideways: bool = False
    scale: float = 1.0

    def colour(self, word: str) -> str:
        if word in _ALARMING:
            return self.theme.colours[ALARM]
        return self.theme.colours[GOOD] if word in _WELCOME else self.theme.quiet

    def mark(self, word: str) -> dict[str, Any]:
        """The mark of a verdict as matplotlib takes it."""
        ink = self.colour(word)
        if word in ("slower", "faster"):
            more = (word == "faster") == self.more_is_better
            shape: Any = (">" if more else "<") if self.sideways else ("^" if more else "v")
        else:
            shape = _MARKS[word]
        return {
            "marker": shape,
            "markersize": _SIZES.get(word, SIZE) * self.scale,
            "color": ink,
            "markerfacecolor": self.theme.background if word == "unclear" else ink,
            "markeredgecolor": ink,
            "markeredgewidth": 1.8 if word in _STROKES else 1.3 if word == "unclear" else 0.0,
            "linestyle": "",
        }

    def legend(self, counts: Mapping[str, int]) -> list[Entry]:
        """`12 slower`, `30 same`: what there is, those that want attention first."""
        return [(f"{counts[word]} {word}", Line2D([], [], **self.mark(word))) for word in WORDS if counts.get(word)]
