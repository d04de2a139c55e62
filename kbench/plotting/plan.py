"""From files and choices to pages: everything that is decided before anything is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kbench.analysis import metrics as metrics
from kbench.analysis.files import OWN, Source
from kbench.analysis.winner_table import MEANING, noises, winners_of
from kbench.errors import UsageError
from kbench.plotting.page.caption import caption
from kbench.plotting.selection.pages import MAX_BY, MAX_PANELS, Page, along, companions, split
from kbench.plotting.selection.points import axes, configuration, points
from kbench.plotting.style import theme as themes
from kbench.plotting.style.look import Look
from kbench.text.suggest import unknown

MOST_CURVES = 200
"""More take minutes to draw, and nobody can tell them apart."""

KINDS = ("lines", "bars", "heatmap", "change")


@dataclass(frozen=True)
class Choices:
    """What a person may choose about a picture.

    metric    what is drawn: gbps, ms, speedup, copy_fraction or ulp; of a change whatever `kbench compare` compares. "" is
              gbps, and of a change ms
    kind      lines (bars where nothing runs along x), bars (a panel per case), heatmap (who wins where) or change (several
              files against the first, or the providers of one file against its baseline)
    x         the axis or swept parameter to draw against; default: the axis with the most values
    by        columns whose values become panels; default: whatever varies, as far as it fits
    theme     light or dark
    baseline  what a change is against: the label of a file, or a provider; default: the first file, the config's baseline
    margin    the smallest change of interest, as a share
    """

    metric: str = ""
    kind: str = "lines"
    x: str | None = None
    by: Sequence[str] = ()
    theme: str = "light"
    baseline: str | None = None
    margin: float = 0.02

    @property
    def metric_name(self) -> str:
        return self.metric or ("ms" if self.kind == "change" else "gbps")


@dataclass(frozen=True)
class Plan:
    """Pages, how they look, and what is written around them. `titled` are the columns that a title names where a page
    has one value of them; `y` is the other axis of a heatmap."""

    kind: str
    look: Look
    pages: list[Page]
    titled: list[str]
    caption: str
    y: str = ""


def plan(sources: Sequence[Source], choices: Choices) -> Plan:
    """Raises UsageError when there is nothing to draw, or too much for a picture, or no such choice."""
    kind = choices.kind
    if kind not in KINDS:
        raise UsageError(f"--kind: {unknown('kind', kind, KINDS)}")
    if kind == "change":
        raise UsageError("a change is drawn into files only; in the terminal, kbench compare shows the same numbers")
    metric = metrics.named("ms" if kind == "heatmap" else choices.metric_name)
    drawn, x = along(points(sources, metric), axes(sources), _axis(choices.x, sources), parameters=kind == "lines")
    columns, theme = configuration(drawn, sources), themes.named(choices.theme)
    if (count := drawn["curve"].nunique()) > MOST_CURVES:
        what = f"{count:,} curves are too many for a picture, the limit is {MOST_CURVES}"
        raise UsageError(f"{what}; choose some with --where provider=NAME")
    titled = list(dict.fromkeys([*columns, "device"]))
    paired = companions(drawn, axes(sources), x) if kind != "bars" else {}
    if kind == "heatmap":
        cells, y = winners_of(sources, axes(sources), x, paired, choices.by)
        look = Look.of(cells, metric, theme, x, sources, list(paired))
        beside, named = (
            [name for name in names if name not in (x, y, *paired)] for names in (["file", *columns], titled)
        )
        small_print = caption(sources, drawn, None, "\n".join([*noises(sources), MEANING, *paired.values()]))
        return Plan(kind, look, split(cells, beside, choices.by), named, small_print, y)
    look = Look.of(drawn, metric, theme, x, sources, list(paired))
    beside = [name for name in columns if (name != x or kind == "bars") and name not in paired]
    beside += ["file"] if "file" in choices.by else []
    meaning = "; ".join(paired.values())
    room = MAX_BY if kind == "bars" else MAX_PANELS
    return Plan(kind, look, split(drawn, beside, choices.by, room), titled, caption(sources, drawn, metric, meaning))


def _axis(name: str | None, sources: Sequence[Source]) -> str | None:
    """What pictures call an axis that the user names as the CSV does: see `source.load`."""
    return f"axis_{name}" if name in OWN and f"axis_{name}" in axes(sources) else name
