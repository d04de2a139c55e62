"""What all panels of all pictures of one call share: colours, names, the files and their machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from kbench.analysis.files import Source
from kbench.analysis.metrics import Metric
from kbench.plotting.selection.points import ABSENT, COPY
from kbench.plotting.style.colours import Style, provider_of, styles
from kbench.plotting.style.theme import LINES, MARKERS, Theme
from kbench.plotting.style.words import shorten


@dataclass(frozen=True)
class Look:
    """`x` is what runs along x, "" for nothing, and `paired` are the axes that go with it. `names` is what to print for a
    curve."""

    metric: Metric
    theme: Theme
    x: str
    sources: Sequence[Source]
    styles: dict[str, Style]
    names: dict[str, str]
    paired: Sequence[str] = ()

    @classmethod
    def of(
        cls,
        drawn: pd.DataFrame,
        metric: Metric,
        theme: Theme,
        x: str,
        sources: Sequence[Source],
        paired: Sequence[str] = (),
    ) -> Look:
        """Curves that are not shown have their colours too as long as there are enough: a provider keeps its colour from
        one picture of a file to the next."""
        shown = set(drawn.loc[drawn["kind"] != ABSENT, "curve"]) - {COPY}
        everyone = shown.union(*(source.curves for source in sources))
        look = styles(everyone if len(everyone) <= len(MARKERS) else shown, theme)
        copy = Style(theme.quiet, "", "-")
        return cls(metric, theme, x, sources, {**look, COPY: copy}, shorten([*look, COPY]), paired)

    def colour(self, curve: str) -> str:
        """The colour of a curve that stands beside its name: that of its provider, whatever its parameters."""
        return self.theme.quiet if curve == COPY else self.providers[provider_of(curve)].colour

    @cached_property
    def providers(self) -> dict[str, Style]:
        return styles({provider_of(curve) for curve in self.styles if curve != COPY}, self.theme)

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
