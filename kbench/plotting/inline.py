"""Pictures as parts of a web page: one SVG for both themes, whose points say their values when the mouse is over them.

Colours are variables of the page's style sheet, so that the page chooses the theme. Text stays text, in the page's font.
"""

from __future__ import annotations

import dataclasses
import io
import re
from collections.abc import Sequence
from html import escape

import matplotlib
from matplotlib.figure import Figure

from kbench.analysis.files import ResultsFile
from kbench.plotting.page.figure import draw
from kbench.plotting.page.layout import POINTS_PER_INCH
from kbench.plotting.panels import lines
from kbench.plotting.panels.look import Look
from kbench.plotting.picture_plan import Choices, plan_pictures
from kbench.plotting.selection.pages import Page
from kbench.plotting.selection.points import VALUE, pool
from kbench.plotting.style.formatting import four_digits, size_text
from kbench.plotting.style.theme import LIGHT, Theme, mix, styled

_TAG = re.compile(r"<[^>]*>")  # matplotlib escapes both signs in text and in attributes
_BETWEEN_TAGS = re.compile(r">\s*\n\s*<")
_NOT_SHOWN = re.compile(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", re.DOTALL)
_OWN_FONT = re.compile(r" font-family: [^;\"]*;?| transform=\"rotate\(-0 [^\"]*\"")
_THIRD_DECIMAL = re.compile(r"(\.\d\d)\d+")
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
_ID = re.compile(r' id="([^"]*)"')


def colour_variables(theme: Theme) -> dict[str, str]:
    """The names and values of the style sheet's variables for the colours of pictures."""
    plain = {name: value for name, value in dataclasses.asdict(theme).items() if isinstance(value, str)}
    del plain["name"]
    lines = {f"line{place}": colour for place, colour in enumerate(theme.colours)}
    text = {f"text{place}": theme.readable(colour) for place, colour in enumerate(theme.colours)}
    return plain | {"band": mix(theme.background, theme.quiet, 0.2)} | lines | text


def inline_pictures(sources: Sequence[ResultsFile], metric: str) -> list[str]:
    """The pictures of `kbench plot` as SVG elements. Raises UsageError and ResultsError as `plot` does."""
    planned = plan_pictures(sources, Choices(metric))
    pictures = []
    for page in planned.pages:
        with styled(LIGHT):
            figure = draw(page, planned.look, planned.caption)
        svg = inline_svg(figure)
        pictures.append(svg.replace("</svg>", f'<g class="values">{_values(figure, page, planned.look)}</g></svg>'))
    return pictures


def inline_svg(figure: Figure) -> str:
    """A figure in the light theme as an SVG element for both themes."""
    figure.set_dpi(POINTS_PER_INCH)  # the unit of the SVG
    stream = io.StringIO()
    with styled(LIGHT), matplotlib.rc_context({"svg.fonttype": "none"}):
        figure.savefig(stream, format="svg", metadata={"Date": None})
    whole = stream.getvalue()
    svg = _NOT_SHOWN.sub("", whole[whole.index("<svg") :])
    referred = set(re.findall(r"[\"(]#(\w+)", svg))
    variables = {colour.lower(): f"var(--{name})" for name, colour in reversed(colour_variables(LIGHT).items())}

    def for_the_page(tag: re.Match[str]) -> str:
        text = _COLOUR.sub(lambda colour: variables.get(colour[0], colour[0]), tag[0])
        text = _ID.sub(lambda name: name[0] if name[1] in referred else "", text)
        text = _THIRD_DECIMAL.sub(r"\1", _OWN_FONT.sub("", text))
        return text.replace(" \n", " ").replace("\n", " ").replace("; ", ";").replace(": ", ":")

    return _BETWEEN_TAGS.sub("><", _TAG.sub(for_the_page, svg))


def _values(figure: Figure, page: Page, look: Look) -> str:
    """A circle over each point of a line, with a title that says its value. Bars have their values beside them."""
    height = figure.get_figheight() * POINTS_PER_INCH
    circles = []
    for axes, panel in zip(
        figure.axes, page.panels, strict=False
    ):  # labels may have axes of their own, which come last
        if not lines.is_line(panel.points):
            continue
        points = pool(panel.points[panel.points["kind"] == VALUE], ["file", "curve", "x"])
        points = points.reset_index().dropna(subset=["x", "value"])
        numbers = points[["x", "value", "low", "high"]].to_numpy(dtype=float)
        places = axes.transData.transform(numbers[:, :2])
        who = zip(points["curve"], points["file"], strict=True)
        for (curve, file), (x, value, low, high), (across, up) in zip(who, numbers, places, strict=True):
            named = [curve, *([file] if len(look.files) > 1 else []), f"{look.x}={size_text(x)}"]
            band = f" ({four_digits(low)} to {four_digits(high)})" if high > low else ""
            title = escape(f"{' · '.join(named)}\n{look.metric.label}: {four_digits(value)}{band}")
            circles.append(f'<circle cx="{across:.1f}" cy="{height - up:.1f}" r="6"><title>{title}</title></circle>')
    return "".join(circles)
