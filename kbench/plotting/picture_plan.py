"""From files and choices to pages: every decision that is made before anything is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kbench.analysis.files import OWN, ResultsFile
from kbench.analysis.metrics import default_metric, metric_by_name
from kbench.errors import UsageError
from kbench.plotting.page.caption import caption
from kbench.plotting.panels.look import Look
from kbench.plotting.selection.along import along, companions, models_along
from kbench.plotting.selection.pages import MAX_BY, MAX_PANELS, Page, split_into_pages
from kbench.plotting.selection.points import axis_names, fixed_columns, points
from kbench.plotting.selection.winners import winners_of
from kbench.plotting.style.theme import MARKERS, theme_by_name
from kbench.text.suggest import unknown

MOST_CURVES = 200
"""More curves take minutes to draw, and no reader can tell them apart."""

PICTURE_KINDS = ("lines", "bars", "heatmap", "change")

MARGINS = "1.10x: the runner-up takes 10 % longer · ~: a tie · ?: too noisy to tell"
"""The signs in a heatmap, for its caption."""


@dataclass(frozen=True)
class Choices:
    """What a user may choose about a picture.

    metric    what is drawn: gbps, ms, speedup, copy_fraction, tflops, sol or ulp; for a change any metric of `kbench compare`.
              "" is ms for a change, otherwise tflops, gbps or ms: see `default_metric`
    kind      lines (bars where nothing runs along x), bars (a panel per case), heatmap (the winner of each case) or
              change (of two files, the old one first)
    x         the axis or swept parameter that runs along x; default: the axis with the most values
    by        columns whose values become panels; default: the columns that vary, while there is room
    theme     light or dark
    margin    the smallest change of interest, as a share
    """

    metric: str = ""
    kind: str = "lines"
    x: str | None = None
    by: Sequence[str] = ()
    theme: str = "light"
    margin: float = 0.02

    def metric_of(self, sources: Sequence[ResultsFile]) -> str:
        """The name of the metric, or the default of the kind for these files."""
        if self.metric or self.kind == "change":
            return self.metric or "ms"
        return default_metric(source.rows for source in sources)


@dataclass(frozen=True)
class PicturePlan:
    """The pages, how they look, and the caption under each."""

    kind: str
    look: Look
    pages: list[Page]
    caption: str


def plan_pictures(sources: Sequence[ResultsFile], choices: Choices) -> PicturePlan:
    """The plan for these files and choices.

    Raises UsageError for an unknown choice and for more than fits into a picture, ResultsError where there is no value to
    draw.
    """
    kind = choices.kind
    if kind not in PICTURE_KINDS:
        raise UsageError(f"--kind: {unknown('kind', kind, PICTURE_KINDS)}")
    if kind == "change":
        raise UsageError("--term cannot draw --kind change; kbench compare shows the same numbers")
    metric, theme = (
        metric_by_name("ms" if kind == "heatmap" else choices.metric_of(sources)),
        theme_by_name(choices.theme),
    )
    axes = axis_names(sources)
    wanted = f"axis_{choices.x}" if choices.x in OWN and f"axis_{choices.x}" in axes else choices.x  # renamed by `load`
    drawn, x = along(points(sources, metric), axes, wanted, len(MARKERS), parameters=kind == "lines")
    if (count := drawn["curve"].nunique()) > MOST_CURVES:
        what = f"{count:,} curves are too many for a picture, the limit is {MOST_CURVES}"
        raise UsageError(f"{what}; choose some with --where provider=NAME")
    columns = fixed_columns(drawn, sources)
    titled = list(dict.fromkeys([*columns, "model"]))  # the caption names the device
    paired = companions(drawn, axes, x) if kind != "bars" else {}
    if kind == "heatmap":
        cells, y = winners_of(sources, axes, x, paired, choices.by)
        apart = (x, y, *paired)
        look = Look.of(
            cells, metric, theme, x, sources, list(paired), [name for name in titled if name not in apart], y
        )
        pages = split_into_pages(cells, [name for name in ["file", *columns] if name not in apart], choices.by)
        lines = [*_noise_lines(sources), MARGINS, *paired.values(), *filter(None, [models_along(drawn, x)])]
        return PicturePlan(kind, look, pages, caption(sources, drawn, None, "\n".join(lines)))
    look = Look.of(drawn, metric, theme, x, sources, list(paired), titled)
    named = models_along(drawn, x) if kind != "bars" else ""
    beside = [name for name in columns if (name != x or kind == "bars") and name not in paired]
    beside += ["file"] if "file" in choices.by else []
    pages = split_into_pages(drawn, beside, choices.by, MAX_BY if kind == "bars" else MAX_PANELS)
    return PicturePlan(
        kind, look, pages, caption(sources, drawn, metric, "; ".join(filter(None, [*paired.values(), named])))
    )


def _noise_lines(sources: Sequence[ResultsFile]) -> list[str]:
    """A line for the caption on the noise of each file."""
    several = len(sources) > 1
    return [f"{source.label}: " * several + source.analysis.noise.sentence() for source in sources]
