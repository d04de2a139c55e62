"""What all panels of all pictures of one call share: colours, names, the files and their machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from kbench.plotting.metric import Metric
from kbench.plotting.points import ABSENT, COPY
from kbench.plotting.source import Source
from kbench.plotting.theme import LINES, MARKERS, Style, Theme, styles
from kbench.plotting.words import natural, shorten


@dataclass(frozen=True)
class Look:
    """`x` is what runs along x, "" for nothing. `names` is what to print for a curve."""

    metric: Metric
    theme: Theme
    x: str
    sources: Sequence[Source]
    styles: dict[str, Style]
    names: dict[str, str]

    @classmethod
    def of(cls, drawn: pd.DataFrame, metric: Metric, theme: Theme, x: str, sources: Sequence[Source]) -> Look:
        """Curves are coloured in the order of their names, those that are not shown included as long as there are
        colours for all: a provider keeps its colour from one picture of a file to the next."""
        shown = set(drawn.loc[drawn["kind"] != ABSENT, "curve"]) - {COPY}
        everyone = shown.union(*(source.curves for source in sources))
        look = styles(natural(everyone if len(everyone) <= len(MARKERS) else shown), theme)
        copy = Style(theme.quiet, "", "-")
        return cls(metric, theme, x, sources, {**look, COPY: copy}, shorten([*look, COPY]))

    @property
    def files(self) -> list[str]:
        return [source.label for source in self.sources]

    def line(self, curve: str, file: str) -> Any:
        """One file: as the curve's style says. Several: a line style for each, so that a colour is a provider."""
        return self.styles[curve].line if len(self.files) == 1 else LINES[self.files.index(file) % len(LINES)]

    def agreed(self, quantity: str, files: Iterable[str]) -> float | None:
        """`peak_gbps` or `cache_bytes` of the machine, where these files agree on one."""
        shown = set(files)
        values = {getattr(source, quantity) for source in self.sources if source.label in shown}
        return values.pop() if len(values) == 1 else None
