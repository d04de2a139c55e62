"""What all panels of one call share: the metric, the axes, the files, and the colours and names of the curves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from kbench.analysis.files import ResultsFile
from kbench.analysis.metrics import Metric
from kbench.plotting.names import shorten
from kbench.plotting.points import ABSENT, COPY_CURVE
from kbench.plotting.style import LINES, Style, Theme, provider_of, styles


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
    sources: Sequence[ResultsFile]
    x: str
    paired: Sequence[str]
    titled: Sequence[str]
    y: str = ""
    styles: dict[str, Style] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def of(self, drawn: pd.DataFrame) -> Look:
        """The look with the curves of these points.

        Curves that are not shown take part in the choice of colours while there are enough colours, so that a provider
        has the same colour in all pictures of a file.
        """
        shown = set(drawn.loc[drawn["kind"] != ABSENT, "curve"]) - {COPY_CURVE}
        everyone = shown.union(*(source.configurations for source in self.sources))
        chosen = styles(everyone if len(everyone) <= len(self.theme.colours) else shown, self.theme)
        chosen[COPY_CURVE] = Style(self.theme.quiet, "", "-")
        return replace(self, styles=chosen, names=shorten(chosen))

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

    def agreed(self, quantity: str, files: Iterable[str]) -> float | None:
        """`peak_gbps` or `cache_bytes` of these files; None where they differ."""
        shown = set(files)
        values = {getattr(source, quantity) for source in self.sources if source.label in shown}
        return values.pop() if len(values) == 1 else None

    def peak(self, panel: pd.DataFrame) -> float | None:
        """The theoretical bandwidth in GB/s. None where the picture does not show bandwidths."""
        return self.agreed("peak_gbps", panel["file"]) if self.metric.name == "gbps" else None
