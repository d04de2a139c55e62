"""From files and choices to pages: everything that is decided before anything is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kbench.plotting import metric as metrics
from kbench.plotting import theme as themes
from kbench.plotting.caption import caption
from kbench.plotting.look import Look
from kbench.plotting.pages import Page, along, companions, split
from kbench.plotting.points import axes, configuration, points
from kbench.plotting.source import Source
from kbench.plotting.winners import MEANING, winners_of
from kbench.table import TableError

KINDS = ("lines", "bars", "heatmap")


@dataclass(frozen=True)
class Choices:
    """What a person may choose about a picture.

    metric  what is drawn: gbps, ms, speedup, roofline or ulp
    kind    lines (bars where nothing runs along x), bars (a panel per case) or heatmap (who wins where)
    x       the axis or swept parameter to draw against; default: the axis with the most values
    by      columns whose values become panels; default: whatever varies, as far as it fits
    theme   light or dark
    """

    metric: str = "gbps"
    kind: str = "lines"
    x: str | None = None
    by: Sequence[str] = ()
    theme: str = "light"


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
    """Raises TableError when there is nothing to draw, or too much for a picture, or no such choice."""
    kind = choices.kind
    if kind not in KINDS:
        raise TableError(f"no kind of picture {kind!r}; there are {', '.join(KINDS)}")
    metric = metrics.named("ms" if kind == "heatmap" else choices.metric)
    drawn, x = along(points(sources, metric), axes(sources), choices.x, parameters=kind == "lines")
    look = Look.of(drawn, metric, themes.named(choices.theme), x, sources)
    columns = configuration(drawn, sources)
    titled = list(dict.fromkeys([*columns, "device"]))
    if kind == "heatmap":
        cells, y = winners_of(sources, axes(sources), x)
        beside, named = ([name for name in names if name not in (x, y)] for names in (["file", *columns], titled))
        small_print = caption(sources, drawn, None, MEANING)
        return Plan(kind, look, split(cells, beside, choices.by), named, small_print, y)
    paired = companions(drawn, axes(sources), x) if kind == "lines" else {}
    beside = [name for name in columns if (name != x or kind == "bars") and name not in paired]
    beside += ["file"] if "file" in choices.by else []
    meaning = "; ".join(paired.values())
    return Plan(kind, look, split(drawn, beside, choices.by), titled, caption(sources, drawn, metric, meaning))
