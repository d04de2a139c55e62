"""What all panels of one call share: the metric, the axes, the files, and the colours and names of the curves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from kbench.analysis.files import ResultsFile
from kbench.analysis.metrics import Metric
from kbench.plotting.selection.points import ABSENT, COPY_CURVE
from kbench.plotting.style.colours import Style, provider_of, styles
from kbench.plotting.style.formatting import shorten
from kbench.plotting.style.theme import LINES, MARKERS, Theme


@dataclass(frozen=True)
class Look:
    """How the curves of all panels look, and what the axes of the panels are.

    x       the name of what runs along x, "" for nothing
    y       the name of the other axis of a heatmap, "" for none
    paired  the axes that vary one to one with x
    titled  the columns that a title names where a page has one value of them
    styles  by curve
    names   what to print for a curve
    """

    metric: Metric
    theme: Theme
    x: str
    sources: Sequence[ResultsFile]
    styles: dict[str, Style]
    names: dict[str, str]
    paired: Sequence[str] = ()
    titled: Sequence[str] = ()
    y: str = ""

    @classmethod
    def of(
        cls,
        drawn: pd.DataFrame,
        metric: Metric,
        theme: Theme,
        x: str,
        sources: Sequence[ResultsFile],
        paired: Sequence[str] = (),
        titled: Sequence[str] = (),
        y: str = "",
    ) -> Look:
        """The look for these points.

        Curves that are not shown take part in the choice of colours while there are enough colours, so that a provider
        has the same colour in all pictures of a file.
        """
        shown = set(drawn.loc[drawn["kind"] != ABSENT, "curve"]) - {COPY_CURVE}
        everyone = shown.union(*(source.configurations for source in sources))
        found = styles(everyone if len(everyone) <= len(MARKERS) else shown, theme)
        copy = Style(theme.quiet, "", "-")
        names = shorten([*found, COPY_CURVE])
        return cls(metric, theme, x, sources, {**found, COPY_CURVE: copy}, names, paired, titled, y)

    def by_provider(self) -> Look:
        """The look of a picture where the name of a curve stands beside each of its marks, so that the colour can be that of
        its provider, whatever its parameters."""
        curves = [curve for curve in self.styles if curve != COPY_CURVE]
        providers = styles({provider_of(curve) for curve in curves}, self.theme)
        return replace(self, styles={**self.styles, **{curve: providers[provider_of(curve)] for curve in curves}})

    @property
    def files(self) -> list[str]:
        """The labels of the files."""
        return [source.label for source in self.sources]

    def line(self, curve: str, file: str) -> Any:
        """The line style of a curve. With several files each file has its own, and a colour is a provider."""
        return self.styles[curve].line if len(self.files) == 1 else LINES[self.files.index(file) % len(LINES)]

    @property
    def cache_name(self) -> str:
        """The last-level cache of a device is its L2. That of a host may be its L2 or its L3."""
        on_host = any(source.environment.device_type == "cpu" for source in self.sources)
        return "cache" if on_host else "L2"

    def agreed(self, quantity: str, files: Iterable[str]) -> float | None:
        """`peak_gbps` or `cache_bytes` of these files; None where they differ."""
        shown = set(files)
        values = {getattr(source, quantity) for source in self.sources if source.label in shown}
        return values.pop() if len(values) == 1 else None
