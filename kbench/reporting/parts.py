"""Parts of the page as HTML: the cells of tables, and pictures.

A column of numbers sorts by its numbers. A picture is one SVG for both themes, whose points say their values when the mouse is
over them. Its colours are variables of the page's style sheet, so that the page chooses the theme. Its text stays text, in the
page's font.
"""

from __future__ import annotations

import dataclasses
import io
import math
import re
from collections.abc import Callable, Sequence

import matplotlib
from markupsafe import Markup, escape

from kbench.comparison.verdict import Verdict
from kbench.plotting import Picture
from kbench.plotting.names import four_digits, size_text
from kbench.plotting.sheet import POINTS_PER_INCH
from kbench.plotting.style import LIGHT, Theme, styled
from kbench.results.vocabulary import Flag, Status
from kbench.text.printable import printable
from kbench.text.table import Table

TONES = {
    **{status.value: "alarm" for status in Status if status.failed},
    **{verdict.value: {"!": "alarm", "+": "good"}.get(verdict.glyph, "") for verdict in Verdict},
    Flag.SUSPECT.value: "alarm",
}
"""By word: the style of a cell of TONED_COLUMNS."""

TONED_COLUMNS = ("status", "verdict", "kind")


_TAG = re.compile(r"<[^>]*>")  # matplotlib escapes both signs in text and in attributes
_NOT_SHOWN = re.compile(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", re.DOTALL)
_OWN_FONT = re.compile(r" font-family: [^;\"]*;?")
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
_ID = re.compile(r' id="([^"]*)"')


def page_table(columns: Sequence[tuple[str, Sequence[str]]]) -> Table:
    """The table of these columns, without empty ones."""
    table = Table.of(columns)
    return table.without_empty(table.header)


def body(table: Table) -> Markup:
    """The rows as HTML. End tags of cells are left out, as HTML allows: there are thousands."""
    columns = []
    for head, cells, numeric in zip(table.header, table.columns, table.numeric, strict=True):
        tags = {text: f"<td{_class(head, text, numeric)}>{escape(printable(text))}" for text in set(cells)}
        columns.append([tags[text] for text in cells])
    return Markup("\n".join(f"<tr>{''.join(row)}" for row in zip(*columns, strict=True)))


def _class(head: str, text: str, numeric: bool) -> str:
    if numeric:
        return " class=n"
    if len(text) > 60:
        return " class=long"
    tone = TONES.get(text, "") if head in TONED_COLUMNS else ""
    return f" class={tone}" if tone else ""


def number(value: float | None, write: Callable[[float], str]) -> str:
    """A number as text, "" for a missing or infinite one."""
    return "" if value is None or not math.isfinite(value) else write(value)


def colour_variables(theme: Theme) -> dict[str, str]:
    """The names and values of the style sheet's variables for the colours of pictures."""
    plain = {name: value for name, value in dataclasses.asdict(theme).items() if isinstance(value, str)}
    del plain["name"]
    lines = {f"line{place}": colour for place, colour in enumerate(theme.colours)}
    return plain | lines | {f"text{place}": colour for place, colour in enumerate(theme.texts)}


def inline_svg(picture: Picture) -> str:
    """A picture in the light theme as an SVG element for both themes. A circle over each point of a line says its value."""
    figure = picture.figure
    figure.set_dpi(POINTS_PER_INCH)  # the unit of the SVG
    stream = io.StringIO()
    with styled(), matplotlib.rc_context({"svg.fonttype": "none"}):
        figure.savefig(stream, format="svg", metadata={"Date": None})
    whole = stream.getvalue()
    svg = _NOT_SHOWN.sub("", whole[whole.index("<svg") :])
    referred = set(re.findall(r"[\"(]#(\w+)", svg))
    variables = {colour.lower(): f"var(--{name})" for name, colour in reversed(colour_variables(LIGHT).items())}

    def for_the_page(tag: re.Match[str]) -> str:
        text = _COLOUR.sub(lambda colour: variables.get(colour[0], colour[0]), tag[0])
        return _OWN_FONT.sub("", _ID.sub(lambda name: name[0] if name[1] in referred else "", text))

    return _TAG.sub(for_the_page, svg).replace("</svg>", f'<g class="values">{_circles(picture)}</g></svg>')


def _circles(picture: Picture) -> str:
    height = picture.figure.get_figheight() * POINTS_PER_INCH
    several = len({series.file for panel in picture.curves for series in panel}) > 1
    circles = []
    for axes, panel in zip(picture.figure.axes, picture.curves, strict=False):
        for series in panel:
            name = f"{series.curve} · {series.file}" if several else series.curve
            before, between = escape(f"{name} · {axes.get_xlabel()}="), escape(f"\n{axes.get_ylabel()}: ")
            for x, value in series.values.items():
                across, up = axes.transData.transform((x, value.value))
                band = f" ({four_digits(value.low)} to {four_digits(value.high)})" if value.high > value.low else ""
                text = f"{before}{size_text(x)}{between}{four_digits(value.value)}{band}"
                circles.append(f'<circle cx="{across:.1f}" cy="{height - up:.1f}" r="6"><title>{text}</title></circle>')
    return "".join(circles)
