"""A map of winners: for each case the fastest curve, its margin, and whether it is a tie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from kbench.analysis.standings import places
from kbench.plotting.panels.look import Look
from kbench.plotting.panels.scale import logarithmic, short
from kbench.plotting.style.formatting import BARE_COLUMNS, natural, size_text
from kbench.plotting.style.theme import contrast, mix
from kbench.text.words import plural

FULL_COLOUR = 0.5
"""A winner has its full colour where the runner-up takes at least this much longer: 0.5 is 50 %."""

PALEST = 0.55
"""The share of its colour that a winner with no margin keeps."""

SHADES = "fainter: a closer runner-up"
"""A line of the caption."""

TIE_HATCH = "////"
TICK_SIZE = 10.5
"""Font size of the sizes along x, in points."""

LETTER_WIDTH = 7.0
"""Of a letter in a cell, in points."""

TICK_WIDTH = 42
"""Room for a size along x, in points."""

TEXT_WIDTH, WIDE_TEXT_WIDTH, GAP_WIDTH = 30, 44, 8
"""The least width of a cell, in points: for text in it, for larger text, and for a gap beside it."""

CELL_TEXT_SIZE, WIDE_CELL_TEXT_SIZE = 9, 11
"""Font sizes of text in cells, in points."""


def draw(axes: Axes, panel: pd.DataFrame, look: Look, width: float) -> None:
    """Draw a cell per case, with larger y above. `width` of the panel, in points, decides whether cells have text."""
    theme = look.theme
    xs, ys = sorted(panel["x"].unique()), heights(panel)
    axes.set_xlim(-0.5, len(xs) - 0.5)
    axes.set_ylim(-0.5, len(ys) - 0.5)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    ticks = _ticks(xs, max(2, int(width // TICK_WIDTH)))
    _label_x(axes, panel, look, xs, ticks)
    axes.set_yticks(range(len(ys)), [height(y) for y in ys] if look.y else [""])
    axes.set_ylabel("" if look.y in BARE_COLUMNS else look.y)
    room = width / len(xs)
    named = has_room(panel, look, width)
    for _, cell in panel.sort_values(["x", "y"]).iterrows():
        at = xs.index(cell["x"]), ys.index(cell["y"])
        colour = look.styles[cell["curve"]].colour
        face = shade(colour, cell["margin"], theme.background)
        open_ = bool(cell["tied"] or cell["unclear"])
        hatch = {"hatch": TIE_HATCH, "edgecolor": theme.background} if open_ else {}
        square = Rectangle((at[0] - 0.5, at[1] - 0.5), 1, 1, facecolor=face, linewidth=0, **hatch)  # type: ignore[arg-type]
        axes.add_patch(square)
        if room >= TEXT_WIDTH:
            ink = max((theme.ink, theme.background), key=lambda shade: contrast(shade, face))
            plate = {"facecolor": face, "linewidth": 0, "pad": 1.5} if open_ else None  # keeps the hatch away from text
            text = f"{look.names[cell['curve']]}\n" * named + margin(cell["margin"], cell["tied"], cell["unclear"])
            size = WIDE_CELL_TEXT_SIZE if room >= WIDE_TEXT_WIDTH else CELL_TEXT_SIZE
            axes.text(*at, text, ha="center", va="center", fontsize=size, color=ink, bbox=plate)
    if room >= GAP_WIDTH:
        axes.vlines([i - 0.5 for i in range(1, len(xs))], -0.5, len(ys) - 0.5, color=theme.background, linewidth=2)
    axes.hlines([i - 0.5 for i in range(1, len(ys))], -0.5, len(xs) - 0.5, color=theme.background, linewidth=2)


def _label_x(axes: Axes, panel: pd.DataFrame, look: Look, xs: list[float], ticks: list[float]) -> None:
    """Label x with a line of sizes, and below it a line for each axis that goes with x, with its name before it."""
    names = [look.x, *look.paired]
    sizes: Any = panel.drop_duplicates("x").set_index("x")
    texts = ["\n".join([short(x), *(short(float(sizes.loc[x, name])) for name in look.paired)]) for x in ticks]
    axes.set_xticks([xs.index(x) for x in ticks], texts, fontsize=TICK_SIZE)
    if not look.paired:
        axes.set_xlabel(look.x)
        return
    axes.annotate(
        "\n".join(names), (0, 0), (-8, -3.5), "axes fraction", "offset points", ha="right", va="top", fontsize=TICK_SIZE,
        annotation_clip=False,
    )  # fmt: skip


def heights(panel: pd.DataFrame) -> list[Any]:
    """The values of y from bottom to top: sizes in growing order, words in falling order."""
    found = panel["y"].unique()
    return natural(found)[::-1] if isinstance(found[0], str) else sorted(found)


def height(y: Any) -> str:
    return y if isinstance(y, str) else size_text(y)


def has_room(panel: pd.DataFrame, look: Look, width: float) -> bool:
    """Whether every cell is wide enough for every winner's name."""
    return width / panel["x"].nunique() >= LETTER_WIDTH * max(len(look.names[curve]) for curve in panel["curve"])


def _ticks(xs: list[float], most: int) -> list[float]:
    """All values. Where they are too many: multiples of a power of two, or else every n-th value."""
    for step in () if logarithmic(xs) else (2**k for k in range(40)):
        chosen = [x for x in xs if x % step == 0] if len(xs) > most else xs
        if 2 <= len(chosen) <= most:
            return chosen
    return xs[:: math.ceil(len(xs) / most)]


def legend(panels: Sequence[pd.DataFrame], look: Look) -> list[tuple[str, Patch]]:
    """Legend entries: the curves that lead a case, those with most wins first, each with its wins and ties.

    The last entry explains the hatch and counts the ties and the cases that are too noisy to tell.
    """
    everything = pd.concat(list(panels))
    sole, shared, _ = places(list(everything["winner"]))
    order = sorted(everything["curve"].unique(), key=lambda curve: (-sole[curve], -shared[curve], curve))
    entries = [
        (f"{look.names[curve]} {_counted(sole[curve], shared[curve])}", Patch(color=look.styles[curve].colour))
        for curve in order
    ]
    tied, unclear = everything["tied"].map(bool), everything["unclear"].map(bool)
    ties, open_ = int((tied & ~unclear).sum()), int(unclear.sum())
    if ties or open_:
        grey = look.theme.quiet
        counts = [f"~ tie ({ties})"] * bool(ties) + [f"? unclear ({open_})"] * bool(open_)
        patch = Patch(facecolor=grey, hatch=TIE_HATCH, edgecolor=look.theme.background, linewidth=0)
        entries.append((", ".join(counts), patch))
    return entries


def _counted(won: int, tied: int) -> str:
    """`74 + 17 ties`"""
    return f"{won} + {plural(tied, 'tie')}" if tied else str(won)


def shade(colour: str, margin: float, background: str) -> str:
    """The colour of a winner, paler for a smaller margin."""
    full = min(1.0, (margin - 1) / FULL_COLOUR)
    return mix(background, colour, PALEST + (1 - PALEST) * full)


def margin(ratio: float, tied: Sequence[str], unclear: Sequence[str]) -> str:
    """`1.27x`, `~` for a tie, `?` where it cannot be told, `alone` where there is no runner-up."""
    if tied or unclear:
        return "?" if unclear else "~"
    return "alone" if math.isinf(ratio) else f"{ratio:.2f}x" if ratio < 9.95 else f"{ratio:.0f}x"
