"""How each verdict looks: a colour, and a mark of its own, so that grey prints can be read too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib.lines import Line2D

from kbench.comparison.verdict import Verdict
from kbench.plotting.page.layout import LegendEntry
from kbench.plotting.panels.marks import QUESTION_MARK
from kbench.plotting.style.theme import Theme

ALARM, GOOD = 1, 2
"""Places in `Theme.colours`: for verdicts that need attention, and for welcome ones. The report uses the same two."""

_MARKS: dict[str, Any] = {
    "same": "o", "unclear": "o", "failed": (6, 2, 0), "missing": "x", "suspect": QUESTION_MARK,
    "fixed": "*", "new": "P", "incomparable": "|", "untimed": "_",
}  # fmt: skip
_STROKES = ("failed", "missing", "incomparable", "untimed")
"""Verdicts with a mark made of strokes, which has no face to fill."""

_SIZES = {"same": 5.0, "unclear": 6.0, "fixed": 9.5, "suspect": 9.0}
_SIZE = 7.0


@dataclass(frozen=True)
class VerdictMarks:
    """The marks of all verdicts of a panel.

    The triangles of `slower` and `faster` point in the direction of the change: up or down, or along x if `sideways`.
    `more_is_better` says whether up is faster. `scale` is the size of the marks over their usual size.
    """

    theme: Theme
    more_is_better: bool
    sideways: bool = False
    scale: float = 1.0

    def colour(self, word: str) -> str:
        """The colour of a verdict."""
        if Verdict(word).needs_attention:
            return self.theme.colours[ALARM]
        return self.theme.colours[GOOD] if Verdict(word).welcome else self.theme.quiet

    def mark(self, word: str) -> dict[str, Any]:
        """The mark of a verdict, as matplotlib takes it."""
        ink = self.colour(word)
        if word in ("slower", "faster"):
            more = (word == "faster") == self.more_is_better
            shape: Any = (">" if more else "<") if self.sideways else ("^" if more else "v")
        else:
            shape = _MARKS[word]
        return {
            "marker": shape,
            "markersize": _SIZES.get(word, _SIZE) * self.scale,
            "color": ink,
            "markerfacecolor": self.theme.background if word == "unclear" else ink,
            "markeredgecolor": ink,
            "markeredgewidth": 1.8 if word in _STROKES else 1.3 if word == "unclear" else 0.0,
            "linestyle": "",
        }

    def legend(self, counts: Mapping[str, int]) -> list[LegendEntry]:
        """Legend entries such as `12 slower`: the verdicts that occur, those that need attention first."""
        return [(f"{counts[word]} {word}", Line2D([], [], **self.mark(word))) for word in Verdict if counts.get(word)]
