"""What is drawn behind the curves of a panel: the sizes that fit into the cache, and the limits of the device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from kbench.plotting.panels.free_room import FreeRoom
from kbench.plotting.panels.look import Look
from kbench.plotting.selection.points import COPY_CURVE
from kbench.plotting.style.formatting import four_digits
from kbench.plotting.style.theme import SMALL_PRINT

LIMIT_LINE: Any = (0, (5, 3))
"""The dashes of lines for limits of the device."""

CACHE_LABEL, LEVEL_LABEL = (0.25, 0.165), (0.3, 0.09)
"""Widths and heights of the room for the labels of the cache and of a limit, as shares of the panel."""


def draw(axes: Axes, panel: pd.DataFrame, look: Look, extent: tuple[float, float], cache_edge: float | None) -> None:
    """Draw the backdrop of a panel of lines, with `cache_edge` from `cache_edges`. The limits of the axes must be set."""
    theme = look.theme
    shown = {label: level for label, level in levels(panel, look).items() if extent[0] < level < extent[1]}
    room = FreeRoom(axes, panel)
    for label, level in shown.items():
        axes.axhline(level, color=theme.quiet, linewidth=1.2, linestyle=LIMIT_LINE, zorder=1)
        _label_level(axes, label, level, room, color=theme.muted)
    if look.metric.ratio:
        axes.axhline(1, color=theme.quiet, linewidth=1.4, zorder=1)
        room.add_line(room.height(1))
    if cache_edge is not None:
        left, right = axes.get_xlim()
        axes.axvspan(left, min(cache_edge, right), color=theme.shade, linewidth=0, zorder=0)
        at, anchor = room.at_left(*CACHE_LABEL, bottom=room.height(extent[0]))
        size = f"{(look.agreed('cache_bytes', panel['file']) or 0) / 2**20:.0f} MiB"
        label, up = f"fits in {look.cache_name}\n({size})", -4 if anchor == "top" else 4
        annotate(axes, label, (0, at), (5, up), ("axes fraction", "axes fraction"), color=theme.muted, va=anchor)


def _label_level(axes: Axes, label: str, level: float, room: FreeRoom, **style: Any) -> None:
    """Write the label of a limit under its line: at the right, else at the left or in the middle if no curve passes there."""
    width, height = LEVEL_LABEL
    top = room.height(level)
    lefts = {"right": 1 - width, "left": 0, "center": (1 - width) / 2}
    free = [side for side, left in lefts.items() if room.is_free(left, top - height, left + width, top)]
    side = free[0] if free else "right"
    x, right = {"right": (1, -2), "left": (0, 5), "center": (0.5, 0)}[side]
    annotate(axes, label, (x, level), (right, -3), ("axes fraction", "data"), ha=side, va="top", **style)
    room.add_line(top - height if side == "left" else top)


def annotate(
    axes: Axes,
    text: str,
    at: tuple[float, float],
    shift: tuple[float, float],
    coordinates: tuple[str, str],
    **style: Any,
) -> None:
    """Small print in a panel, shifted by `shift` points from the place `at`."""
    axes.annotate(text, at, shift, coordinates, "offset points", fontsize=SMALL_PRINT, zorder=1.5, **style)


def peak(panel: pd.DataFrame, look: Look) -> float | None:
    """The theoretical bandwidth in GB/s. None where the picture does not show bandwidths."""
    return look.agreed("peak_gbps", panel["file"]) if look.metric.name == "gbps" else None


def cache_edges(panels: Sequence[pd.DataFrame], look: Look) -> list[float | None]:
    """The x up to which the bytes of a call fit into the cache, for each panel of a page. All are None if everything on the
    page fits: there is nothing to tell apart."""
    edges = [_resident_up_to(panel, look) for panel in panels]
    return [None] * len(edges) if all(edge == math.inf for edge in edges) else edges


def _resident_up_to(panel: pd.DataFrame, look: Look) -> float | None:
    """The x up to which the bytes of a call fit into the cache.

    It is infinite where they always fit, and None where they never fit, do not grow with x, or the cache is not known.
    """
    cache_bytes = look.agreed("cache_bytes", panel["file"]) if look.metric.timed else None
    if not cache_bytes:
        return None
    known = panel[(panel["bytes"] > 0) & panel["x"].notna()]
    sizes = known.groupby("x")["bytes"].median()
    if sizes.nunique() < 2 or not sizes.is_monotonic_increasing or sizes.iloc[0] > cache_bytes:
        return None
    beyond = sizes[sizes > cache_bytes]
    if not len(beyond):
        return math.inf
    last, first = sizes[sizes <= cache_bytes].index[-1], beyond.index[0]
    part = (cache_bytes - sizes[last]) / (sizes[first] - sizes[last])
    return float(last + part * (first - last))


def levels(panel: pd.DataFrame, look: Look) -> dict[str, float]:
    """Limits of the device in the unit of the metric, by name with value: of its memory for GB/s, of its arithmetic for
    TFLOP/s. The large copy of the session is one only where there is no copy control."""
    found = {"theoretical": peak(panel, look)}
    if look.metric.name == "gbps" and COPY_CURVE not in set(panel["curve"]):
        found["large copy"] = panel["ceiling_gbps"].dropna().median()
    if look.metric.name == "tflops":
        found["large matmul"] = panel["ceiling_tflops"].dropna().median()
    return {f"{name} {_written(level)}": level for name, level in found.items() if level and level > 0}


def _written(level: float) -> str:
    return f"{level:.0f}" if level >= 100 else four_digits(level)
