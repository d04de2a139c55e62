"""How all pictures look: the light and the dark theme, and a colour, a marker and a line for each curve. Readers with any
colour vision can tell the curves apart, also in grey print."""

from __future__ import annotations

import warnings
import zlib
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib.style
from matplotlib.colors import to_hex, to_rgb
from matplotlib.path import Path
from matplotlib.textpath import TextPath

from kbench.errors import UsageError
from kbench.plotting.names import natural
from kbench.results.vocabulary import Status
from kbench.text.suggest import unknown

MARKERS = {"o": 6.5, "s": 6.5, "^": 6.5, "D": 6.0, "v": 6.5, "P": 8.0, "X": 8.0, "*": 10.5}
"""The markers of curves, with the sizes in points at which they look equally large."""

LINES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (6, 1, 1, 1, 1, 1)), (0, (1, 3)))
"""Line styles. With several files each file has one; with one file each turn of eight curves has one."""

LIMIT_LINE: Any = (0, (5, 3))
"""The dashes of lines for limits of the device, and for runs in which something changed."""

ASTERISK = (6, 2, 0)

MARK_SHAPES: dict[Status, Any] = {Status.WRONG: "x", Status.UNSUPPORTED: "_"} | dict.fromkeys(
    (Status.TAMPERED, Status.ERROR, Status.OOM, Status.TIMEOUT, Status.CRASHED), ASTERISK
)
"""The mark of a row without a value. Rows with another status have none. No marker of a curve looks like one of them."""

SMALL_PRINT = 9.0
"""Font size of captions and of small print in panels, in points."""

KNOWN = {
    "cuda": 0, "triton": 1, "torch-compile": 2, "quack": 3, "triton-row": 4, "torch-jit": 5, "torch-native": 6, "liger": 7,
    "cuda-naive": 7, "cuda-online": 1, "cuda-shared": 2, "cuda-shuffle": 3, "triton-persistent": 5, "torch-eager": 4,
}  # fmt: skip
"""Places in `Theme.colours` of the providers that come with kbench. The first eight have a colour each."""


@dataclass(frozen=True)
class Theme:
    """Colours as #RRGGBB. `quiet` is for lines behind the data, `muted` for small print, `shade` and `band` for areas. `texts`
    are `colours` with enough contrast to the background for text."""

    name: str
    background: str
    ink: str
    muted: str
    quiet: str
    grid: str
    shade: str
    band: str
    colours: tuple[str, ...]
    texts: tuple[str, ...]

    def rc(self) -> dict[str, Any]:
        """Matplotlib's settings. The sizes suit a picture 8 inches wide that can still be read at half that width."""
        return {
            "axes.axisbelow": True,
            "axes.edgecolor": self.ink,
            "axes.facecolor": self.background,
            "axes.grid": True,
            "axes.labelcolor": self.ink,
            "axes.spines.right": False,
            "axes.spines.top": False,
            "axes.titlesize": 12,
            "figure.dpi": 150,
            "figure.facecolor": self.background,
            "figure.titlesize": 14,
            "figure.titleweight": "bold",
            "font.family": "DejaVu Sans",  # comes with matplotlib: the same picture on every machine
            "font.size": 12,
            "grid.color": self.grid,
            "hatch.linewidth": 0.6,
            "legend.frameon": False,
            "lines.linewidth": 2.0,
            "lines.markersize": 6.5,
            "pdf.compression": 9,
            "savefig.dpi": "figure",
            "savefig.facecolor": self.background,
            "svg.hashsalt": "kbench",
            "text.color": self.ink,
            "text.parse_math": False,  # a `$` in a provider's name or a reason is a dollar
            "xtick.color": self.ink,
            "ytick.color": self.ink,
        }

    def readable(self, colour: str) -> str:
        """A colour of a curve, or one like it with enough contrast for text."""
        return dict(zip(self.colours, self.texts, strict=True)).get(colour, colour)


# Okabe and Ito (2008), "Color Universal Design". Its yellow, which is hard to see on white, is replaced by a dark wine red.
LIGHT = Theme(
    name="light",
    background="#FFFFFF",
    ink="#1A1A1A",
    muted="#555555",
    quiet="#757575",
    grid="#E4E4E4",
    shade="#F1F3F6",
    band="#E3E3E3",
    colours=("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#882255"),
    texts=("#0072B2", "#C25703", "#058461", "#975C7D", "#3E7696", "#946A0A", "#000000", "#882255"),
)

# The same hues, lighter.
DARK = Theme(
    name="dark",
    background="#14171C",
    ink="#EDEFF2",
    muted="#A9B0BA",
    quiet="#8B929C",
    grid="#2B3038",
    shade="#1E232B",
    band="#2C3036",
    colours=("#2590F0", "#D9642A", "#2FA57C", "#E8B5D6", "#7CCBFA", "#F2C14E", "#FFFFFF", "#C0479A"),
    texts=("#2590F0", "#D9642A", "#2FA57C", "#E8B5D6", "#7CCBFA", "#F2C14E", "#FFFFFF", "#C458A3"),
)

THEMES = {theme.name: theme for theme in (LIGHT, DARK)}


def theme_by_name(name: str) -> Theme:
    """The theme of this name. Raises UsageError for any other name."""
    if name not in THEMES:
        raise UsageError(f"--theme: {unknown('theme', name, list(THEMES))}")
    return THEMES[name]


@contextmanager
def styled(name: str = LIGHT.name) -> Iterator[Theme]:
    """Matplotlib with the settings of a theme and none of the user's own. It draws a box for a sign that its font lacks, and
    says nothing about it. Raises UsageError for an unknown theme."""
    theme = theme_by_name(name)
    with warnings.catch_warnings(), matplotlib.style.context(["default", theme.rc()]):
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield theme


def mix(colour: str, other: str, share: float) -> str:
    """`colour` with this share of `other` in it."""
    red, green, blue = ((1 - share) * a + share * b for a, b in zip(to_rgb(colour), to_rgb(other), strict=True))
    return to_hex((red, green, blue))


@dataclass(frozen=True)
class Style:
    """How the line of one curve looks. `marker` and `line` are matplotlib's names; the colour is #RRGGBB."""

    colour: str
    marker: str
    line: Any

    @property
    def points(self) -> dict[str, Any]:
        """The marker, as matplotlib takes it."""
        return {"marker": self.marker, "markersize": MARKERS.get(self.marker)}


def styles(curves: Collection[str], theme: Theme) -> dict[str, Style]:
    """A style per curve. KNOWN or a hash of the name says which colour a provider has in every picture.

    The first configuration of each provider chooses before the second of any. A curve whose colour is taken gets the next
    free one. Once all are taken they are used again, with the next line style and other markers.
    """
    count = len(theme.colours)
    turns: Counter[str] = Counter()
    waiting = []
    for curve in natural(curves):
        provider = provider_of(curve)
        waiting.append((turns[provider], [*KNOWN, provider].index(provider), curve))
        turns[provider] += 1
    chosen: dict[str, Style] = {}
    free: list[int] = []
    for number, (_, _, curve) in enumerate(sorted(waiting, key=lambda entry: entry[:2])):
        turn = number // count
        free = free or list(range(count))
        provider = provider_of(curve)
        first = KNOWN.get(provider, zlib.crc32(provider.encode("utf-8", "replace")) % count)
        place = min(free, key=lambda place: (place - first) % count)
        free.remove(place)
        chosen[curve] = Style(theme.colours[place], [*MARKERS][(place + 3 * turn) % count], LINES[turn % len(LINES)])
    return chosen


def provider_of(curve: str) -> str:
    """`triton-row` of `triton-row[num_warps=4]`."""
    return curve.partition("[")[0]


def row_mark(status: Status, scale: float = 1.0) -> dict[str, Any]:
    """The mark of a row without a value, as matplotlib takes it."""
    sizes = {"markersize": 8.5 * scale, "markeredgewidth": 1.7 * scale}
    return {"marker": MARK_SHAPES[status], "linestyle": "", **sizes}


def _centred(text: str) -> Path:
    path = TextPath((0, 0), text)
    box = path.get_extents()
    return Path(path.vertices - [(box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2], path.codes)


QUESTION_MARK = _centred("?")
"""The mark of a suspect value."""
