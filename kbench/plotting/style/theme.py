"""The light and the dark theme. Readers with any colour vision can tell the curves apart, also in grey print."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib.style

from kbench.errors import UsageError
from kbench.text.suggest import unknown

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (6, 1, 1, 1, 1, 1)), (0, (1, 3)))
"""Line styles. With several files each file has one; with one file each turn of eight curves has one."""

SMALL_PRINT = 9.0
"""Font size of captions and of small print in panels, in points."""


@dataclass(frozen=True)
class Theme:
    """Colours as #RRGGBB. `quiet` is for lines behind the data, `muted` for small print, `shade` for areas."""

    name: str
    background: str
    ink: str
    muted: str
    quiet: str
    grid: str
    shade: str
    colours: tuple[str, ...]

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
            "savefig.dpi": 150,
            "savefig.facecolor": self.background,
            "svg.hashsalt": "kbench",
            "text.color": self.ink,
            "text.parse_math": False,  # a `$` in a provider's name or a reason is a dollar
            "xtick.color": self.ink,
            "ytick.color": self.ink,
        }

    def readable(self, colour: str) -> str:
        """The colour, moved towards the ink until its contrast to the background is 4.5, enough for text."""
        for tenths in range(11):
            mixed = mix(colour, self.ink, tenths / 10)
            if contrast(mixed, self.background) >= 4.5:
                break
        return mixed


# Okabe and Ito (2008), "Color Universal Design". Its yellow, which is hard to see on white, is replaced by a dark wine red.
LIGHT = Theme(
    name="light",
    background="#FFFFFF",
    ink="#1A1A1A",
    muted="#555555",
    quiet="#757575",
    grid="#E4E4E4",
    shade="#F1F3F6",
    colours=("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#882255"),
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
    colours=("#2590F0", "#D9642A", "#2FA57C", "#E8B5D6", "#7CCBFA", "#F2C14E", "#FFFFFF", "#C0479A"),
)

THEMES = {theme.name: theme for theme in (LIGHT, DARK)}


def theme_by_name(name: str) -> Theme:
    """The theme of this name. Raises UsageError for any other name."""
    if name not in THEMES:
        raise UsageError(f"--theme: {unknown('theme', name, list(THEMES))}")
    return THEMES[name]


def mix(colour: str, other: str, share: float) -> str:
    """`colour` with this share of `other` in it."""
    pairs = zip(_channels(colour), _channels(other), strict=True)
    return "#" + "".join(f"{round(255 * (a + (b - a) * share)):02X}" for a, b in pairs)


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours, 1 to 21, as WCAG 2.1 defines it."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in _channels(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _channels(colour: str) -> list[float]:
    return [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]


@contextmanager
def styled(theme: Theme) -> Iterator[None]:
    """Matplotlib with the settings of a theme and none of the user's own. It draws a box for a sign that its font lacks, as in
    a name in Chinese, and says nothing about it."""
    with warnings.catch_warnings(), matplotlib.style.context(["default", theme.rc()]):
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield
