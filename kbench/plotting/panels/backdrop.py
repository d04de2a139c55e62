"""What stands behind the curves of a panel: the region that fits into the cache, and what the memory can do at most."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from kbench.plotting.panels.scale import share
from kbench.plotting.selection.points import COPY
from kbench.plotting.style.look import Look

SMALL = 9.0
DASHES: Any = (0, (5, 3))


def draw(axes: Axes, panel: pd.DataFrame, look: Look, extent: tuple[float, float]) -> None:
    """Draw it all into a panel of lines whose limits are set."""
    theme = look.theme
    shown = {label: level for label, level in levels(panel, look).items() if extent[0] < level < extent[1]}
    for label, level in shown.items():
        axes.axhline(level, color=theme.quiet, linewidth=1.2, linestyle=DASHES, zorder=1)
        write(axes, label, (1, level), (-2, -3), ("axes fraction", "data"), color=theme.muted, ha="right", va="top")
    if look.metric.ratio:
        axes.axhline(1, color=theme.quiet, linewidth=1.4, zorder=1)
    cache = look.agreed("cache_bytes", panel["file"]) if look.metric.timed else None
    edge = resident_up_to(panel, cache) if cache else None
    if cache and edge is not None:
        left, right = axes.get_xlim()
        axes.axvspan(left, min(edge, right), color=theme.shade, linewidth=0, zorder=0)
        top = min([extent[1], *shown.values()])
        at, up, anchor = (top, -4, "top") if _corner_is_free(panel, axes, extent) else (extent[0], 4, "bottom")
        label = f"fits in L2\n({cache / 2**20:.0f} MiB)"
        write(axes, label, (0, at), (5, up), ("axes fraction", "data"), color=theme.muted, va=anchor)


def write(
    axes: Axes,
    text: str,
    at: tuple[float, float],
    shift: tuple[float, float],
    coordinates: tuple[str, str],
    **look: Any,
) -> None:
    """Small print in a panel, so many points from a place."""
    axes.annotate(text, at, shift, coordinates, "offset points", fontsize=SMALL, zorder=1.5, **look)


def peak(panel: pd.DataFrame, look: Look) -> float | None:
    """The theoretical bandwidth, where the picture shows bandwidths."""
    return look.agreed("peak_gbps", panel["file"]) if look.metric.name == "gbps" else None


def resident_up_to(panel: pd.DataFrame, cache_bytes: float) -> float | None:
    """The x up to which all that a call moves fits into the cache: infinite where it always does, None where it never
    does or where bytes do not grow with x."""
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
    """Limits of the memory in GB/s, by name. The session's large copy only where no copy control shows the ceiling."""
    found = {"theoretical": peak(panel, look)}
    if look.metric.name == "gbps" and COPY not in set(panel["curve"]):
        found["large copy"] = panel["ceiling_gbps"].median()
    return {f"{name} {gbps:.0f}": gbps for name, gbps in found.items() if gbps and gbps > 0}


def _corner_is_free(panel: pd.DataFrame, axes: Axes, extent: tuple[float, float]) -> bool:
    """Whether no curve passes through the upper left corner, a quarter of the panel wide."""
    known = panel[panel["value"].notna() & panel["x"].notna()]
    to_share = axes.transData + axes.transAxes.inverted()
    left = [to_share.transform((x, extent[1]))[0] < 0.25 for x in known["x"]]
    return all(share(value, extent) < 0.78 for value in known.loc[left, "value"])
