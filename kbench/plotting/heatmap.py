"""A map of winners: for each case the fastest curve, its margin, and whether the difference is more than noise."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.patches import Patch, Rectangle

from kbench.analysis.files import ResultsFile
from kbench.analysis.standings import places
from kbench.errors import ResultsError, UsageError
from kbench.plotting.along import most_values, numeric
from kbench.plotting.look import Look
from kbench.plotting.names import BARE_COLUMNS, natural, size_text
from kbench.plotting.scales import short, ticks
from kbench.plotting.sheet import LegendEntry, text_width
from kbench.plotting.style import mix
from kbench.text.words import plural

SIGNS = "1.10x: the runner-up takes 10 % longer · ~: a tie · ?: too noisy to tell"
SHADES = "fainter: a closer runner-up"
"""What cells say, and what their colours say, for the caption."""

FULL_COLOUR = 0.5
"""A winner has its full colour where the runner-up takes at least this much longer: 0.5 is 50 %."""

PALEST = 0.55
"""The share of its colour that a winner with no margin keeps."""

TIE_HATCH = "////"
TICK_SIZE = 10.5
"""Font size of the sizes along x, in points."""

TICK_WIDTH = 42
"""Room for a size along x, in points."""

TEXT_SIZES = (11, 9)
"""Font sizes of text in cells, in points: the first at which all of it fits, without the names if need be, or none."""

GAP_WIDTH = 8
"""The least width of a cell with a gap beside it, in points."""


def winners_of(
    sources: Sequence[ResultsFile], axes: Sequence[str], x: str, paired: Collection[str] = (), by: Collection[str] = ()
) -> tuple[pd.DataFrame, str]:
    """A row per case, and the name of the column that is y.

    The columns are file, operator, dtype, the axes, device, timer, cache, then curve, margin, tied, unclear and winner
    as `kbench.analysis.Winner` has them, `x` and `y`. y is the other axis with the most values. Where no other axis
    varies it is the dtype, and "" where the dtype does not vary either. Axes in `paired` and columns in `by` are never
    y: the ones go with x, the others make panels.

    Raises UsageError where x is no axis, ResultsError where no provider was timed.
    """
    rows: list[dict[str, Any]] = [
        {
            "file": source.label,
            "operator": won.case.operator,
            "dtype": won.case.dtype,
            **won.case.axes,
            "device": won.key.device,
            "timer": won.key.timer,
            "cache": won.key.cache,
            "curve": won.configuration_name,
            "margin": won.margin,
            "tied": won.tied,
            "unclear": won.unclear,
            "winner": won,
        }
        for source in sources
        for won in source.analysis.winners
    ]
    if not rows:
        paths = ", ".join(str(source.path) for source in sources)
        raise ResultsError(f"{paths}: every row is suspect or has no time; see the columns `reason` and `flags`")
    frame = pd.DataFrame(rows)
    if x not in axes:
        raise UsageError("--kind heatmap needs an axis with whole numbers; choose one with --x, or use --kind bars")
    typed = frame[list(axes)].convert_dtypes()
    free = [name for name in numeric(typed, axes) if name not in (x, *paired, *by)]
    y = most_values(typed, {name: int(typed[name].nunique()) for name in reversed(free)})
    if not y or frame[y].nunique() == 1:
        y = "dtype" if frame["dtype"].nunique() > 1 and "dtype" not in by else ""
    heights = frame[y] if y == "dtype" else frame[y].astype("float64") if y else 0.0
    return frame.assign(x=frame[x].astype("float64"), y=heights, kind="value"), y


def draw(axes: Axes, panel: pd.DataFrame, look: Look, width: float) -> None:
    """Draw a cell per case, with larger y above. `width` of the panel, in points, decides whether cells have text."""
    theme = look.theme
    xs, ys = sorted(panel["x"].unique()), heights(panel)
    axes.set_xlim(-0.5, len(xs) - 0.5)
    axes.set_ylim(-0.5, len(ys) - 0.5)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    _label_x(axes, panel, look, xs, ticks(xs, max(2, int(width // TICK_WIDTH))))
    axes.set_yticks(range(len(ys)), [y if isinstance(y, str) else size_text(y) for y in ys] if look.y else [""])
    axes.set_ylabel("" if look.y in BARE_COLUMNS else look.y)
    room = width / len(xs)
    with_names = [size for size in TEXT_SIZES if has_room(panel, look, width, size)]
    sizes = with_names or [size for size in TEXT_SIZES if text_width("1.00x", size) < room]
    for _, cell in panel.sort_values(["x", "y"]).iterrows():
        column, line = xs.index(cell["x"]), ys.index(cell["y"])
        face = shade(look.styles[cell["curve"]].colour, cell["margin"], theme.background)
        undecided = bool(cell["tied"] or cell["unclear"])
        hatch: dict[str, Any] = {"hatch": TIE_HATCH, "edgecolor": theme.background} if undecided else {}
        axes.add_patch(Rectangle((column - 0.5, line - 0.5), 1, 1, facecolor=face, linewidth=0, **hatch))
        if sizes:
            dark, light = sorted((theme.ink, theme.background), key=_brightness)
            plate = {"facecolor": face, "linewidth": 0, "pad": 1.5} if undecided else None  # no hatch behind text
            text = margin(cell["margin"], cell["tied"], cell["unclear"])
            if with_names:
                text = f"{look.names[cell['curve']]}\n{text}"
            ink = dark if _brightness(face) > 0.5 else light
            axes.text(column, line, text, ha="center", va="center", fontsize=sizes[0], color=ink, bbox=plate)
    if room >= GAP_WIDTH:
        axes.vlines([i - 0.5 for i in range(1, len(xs))], -0.5, len(ys) - 0.5, color=theme.background, linewidth=2)
    axes.hlines([i - 0.5 for i in range(1, len(ys))], -0.5, len(xs) - 0.5, color=theme.background, linewidth=2)


def _brightness(colour: str) -> float:
    """How bright a colour looks, from 0 to 1."""
    red, green, blue = to_rgb(colour)
    return 0.299 * red + 0.587 * green + 0.114 * blue


def _label_x(axes: Axes, panel: pd.DataFrame, look: Look, xs: list[float], shown: list[float]) -> None:
    """Label x with a line of sizes, and below it a line for each axis that goes with x, with its name before it."""
    sizes: Any = panel.drop_duplicates("x").set_index("x")
    texts = ["\n".join([short(x), *(short(float(sizes.loc[x, name])) for name in look.paired)]) for x in shown]
    axes.set_xticks([xs.index(x) for x in shown], texts, fontsize=TICK_SIZE)
    if not look.paired:
        axes.set_xlabel(look.x)
        return
    axes.annotate(
        "\n".join([look.x, *look.paired]), (0, 0), (-8, -3.5), "axes fraction", "offset points", ha="right", va="top",
        fontsize=TICK_SIZE, annotation_clip=False,
    )  # fmt: skip


def heights(panel: pd.DataFrame) -> list[Any]:
    """The values of y from bottom to top: sizes in growing order, words in falling order."""
    values = panel["y"].unique()
    return natural(values)[::-1] if isinstance(values[0], str) else sorted(values)


def has_room(panel: pd.DataFrame, look: Look, width: float, size: float) -> bool:
    """Whether every cell is wide enough for every winner's name and margin in this font size."""
    longest = max(text_width(text, size) for text in ["1.00x", *(look.names[curve] for curve in panel["curve"])])
    return longest < 0.95 * width / panel["x"].nunique()


def legend(cells: pd.DataFrame, look: Look) -> list[LegendEntry]:
    """Legend entries: the curves that lead a case, those with most wins first, each with its wins and ties.

    The last entry explains the hatch and counts the ties and the cases that are too noisy to tell.
    """
    sole, shared, _ = places(list(cells["winner"]))
    order = sorted(cells["curve"].unique(), key=lambda curve: (-sole[curve], -shared[curve], curve))
    entries: list[LegendEntry] = []
    for curve in order:
        counted = f"{sole[curve]} + {plural(shared[curve], 'tie')}" if shared[curve] else str(sole[curve])
        entries.append((f"{look.names[curve]} {counted}", Patch(color=look.styles[curve].colour)))
    unclear = cells["unclear"].map(bool)
    ties = int((cells["tied"].map(bool) & ~unclear).sum())
    counts = [f"~ tie ({ties})"] * bool(ties) + [f"? unclear ({unclear.sum()})"] * bool(unclear.any())
    if counts:
        edge = look.theme.background
        patch = Patch(facecolor=look.theme.quiet, hatch=TIE_HATCH, edgecolor=edge, linewidth=0)
        entries.append((", ".join(counts), patch))
    return entries


def shade(colour: str, margin: float, background: str) -> str:
    """The colour of a winner, paler for a smaller margin."""
    full = min(1.0, (margin - 1) / FULL_COLOUR)
    return mix(background, colour, PALEST + (1 - PALEST) * full)


def margin(ratio: float, tied: Sequence[str], unclear: Sequence[str]) -> str:
    """`1.27x`, `~` for a tie, `?` where it cannot be told, `alone` where there is no runner-up."""
    if tied or unclear:
        return "?" if unclear else "~"
    return "alone" if math.isinf(ratio) else f"{ratio:.2f}x" if ratio < 9.95 else f"{ratio:.0f}x"
