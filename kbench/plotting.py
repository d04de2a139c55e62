"""Pictures of a results CSV: speed against size, one line per provider.

What is drawn follows from what varies. The integer axis with the most values is x; a provider and its parameters is a
line; whatever else varies (dtype, another axis, a choice, the device, the timer) is a panel, so that no line ever joins
two configurations. Two exceptions: where nothing runs along x there are bars, and where a parameter sweep has more
curves than there are colours, the parameter becomes x and the axis a panel. Sessions are pooled: the median of their
medians, in a band from the lowest 20th to the highest 80th percentile.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.style
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from kbench import table
from kbench.palette import CEILING, COLOURS, LOOK, Style, scale_x, scale_y, styles
from kbench.results import CONTROL, PROVIDER, Status, curve_name, format_params
from kbench.table import TableError

METRICS = {"gbps": "GB/s", "ms": "time (ms)", "speedup": "speed-up over the baseline"}
LOWER_IS_BETTER = frozenset({"ms"})
FORMATS = ("png", "svg")
MAX_PANELS = 4
COPY = "copy (control)"


@dataclass(frozen=True)
class Picture:
    """A figure and the combination it shows, as file names spell it: "" or `float16-M64`."""

    combination: str
    figure: Figure


FLATTENED = 4
"""Panels share a scale unless that would press one of them below a quarter of its height."""


def write(
    csv_path: Path | str, metric: str = "gbps", out_dir: Path | str | None = None, formats: Sequence[str] = FORMATS
) -> list[Path]:
    """Draw a results CSV into `<stem>_<metric>[_<combination>].<format>`, beside it or in `out_dir`.

    The same CSV gives the same bytes. Raises TableError when there is nothing to draw or nowhere to write.
    """
    if unknown := [name for name in formats if name not in FORMATS]:
        raise TableError(f"no picture format {unknown[0]!r}; there are {', '.join(FORMATS)}")
    csv_path = Path(csv_path)
    folder = csv_path.parent if out_dir is None else Path(out_dir)
    paths = []
    with matplotlib.style.context(["default", LOOK]):
        for picture in plot(table.read(csv_path), metric):
            name = "_".join(filter(None, [csv_path.stem, metric, picture.combination]))
            for suffix in formats:
                path = folder / f"{name}.{suffix}"
                try:
                    folder.mkdir(parents=True, exist_ok=True)
                    metadata = {"Software": None} if suffix == "png" else {"Date": None}
                    picture.figure.savefig(path, format=suffix, metadata=metadata)
                except OSError as error:
                    raise TableError(f"{path}: cannot be written ({error.strerror}); choose another folder") from None
                paths.append(path)
    return paths


def plot(frame: pd.DataFrame, metric: str = "gbps") -> list[Picture]:
    """The pictures of a frame that `table.read` returned. Raises TableError when no row has the metric."""
    if metric not in METRICS:
        raise TableError(f"no metric {metric!r} to plot; there are {', '.join(METRICS)}")
    points, x_name = _choose_x(_points(frame, metric), table.axes(frame))
    varying = [name for name in _configuration(frame) if name != x_name and points[name].nunique() > 1]
    look = {**styles(_natural(points.loc[points["curve"] != COPY, "curve"].unique())), COPY: CEILING}
    caption = _caption(frame, metric)
    with matplotlib.style.context(["default", LOOK]):
        return [
            Picture(_spell(fixed), _figure(page, metric, x_name, fixed, varying, look, caption))
            for fixed, page in _pages(points, varying)
        ]


def _configuration(frame: pd.DataFrame) -> list[str]:
    """The columns that no line may join, in the order in which pages are split on them."""
    return ["operator", "device", "timer", "cache", "dtype", *table.axes(frame)]


def _points(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The rows to draw with columns `curve`, `value`, `low` and `high` added."""
    role, provider = frame["role"], frame["provider"]
    wanted = (role == PROVIDER) | ((role == CONTROL) & (provider == "copy"))
    points = frame[wanted & (frame["status"] == Status.OK.value) & _measured(frame[metric])]
    if not (points["role"] == PROVIDER).any():
        counts = frame.loc[role == PROVIDER, "status"].value_counts().sort_index()
        found = ", ".join(f"{count} {status}" for status, count in counts.items()) or "no rows at all"
        path = frame.attrs.get("path", "results")
        raise TableError(f"{path}: no row has {metric} to plot ({found}); run the sweep again")
    spread = points[[name for name in (metric, f"{metric}_p20", f"{metric}_p80") if name in points]]
    curves = [
        COPY if role == CONTROL else curve_name(provider, params)
        for role, provider, params in zip(points["role"], points["provider"], points["params"], strict=True)
    ]
    low, high = spread.min(axis=1), spread.max(axis=1)
    drawn: pd.DataFrame = points.assign(curve=curves, value=points[metric], low=low, high=high)
    return drawn


def _measured(values: pd.Series[float]) -> pd.Series[bool]:
    return (values > 0) & (values < math.inf)


def _choose_x(points: pd.DataFrame, axes: list[str]) -> tuple[pd.DataFrame, str]:
    """`points` with a column `x`, and what it is: an axis, or the swept parameter of a wide parameter sweep.

    A curve without that parameter has NaN for x and is drawn as a level. The name is "" where there is no number to
    draw against.
    """
    sizes = {axis: int(points[axis].nunique()) for axis in axes if pd.api.types.is_integer_dtype(points[axis])}
    axis = max(sizes, key=lambda name: (sizes[name], axes.index(name)), default="")
    by_axis: pd.DataFrame = points.assign(x=points[axis].astype("float64") if axis else math.nan)
    if points.loc[points["role"] == PROVIDER, "curve"].nunique() <= len(COLOURS):
        return by_axis, axis
    params = [_params(text) for text in points["params"]]
    names = sorted({name for row in params for name in row})
    numbers = {name: [_number(row.get(name, "")) for row in params] for name in names}
    values = {name: len(set(column) - {None}) for name, column in numbers.items()}
    name = max(values, key=lambda name: values[name], default="")
    if values.get(name, 0) < max(2, sizes.get(axis, 0)):
        return by_axis, axis
    curves = [
        curve if number is None else curve_name(provider, format_params({**row, name: "*"}))
        for curve, provider, row, number in zip(points["curve"], points["provider"], params, numbers[name], strict=True)
    ]
    by_parameter: pd.DataFrame = points.assign(x=pd.Series(numbers[name], points.index, "float64"), curve=curves)
    return by_parameter, name


def _params(text: str) -> dict[str, str]:
    """`num_warps=4,num_stages=1`, as the CSV writes it, taken apart."""
    return {name: value for name, _, value in (item.partition("=") for item in text.split(",")) if name}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _pages(points: pd.DataFrame, varying: list[str]) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Split into pages of at most MAX_PANELS combinations, each with the values that are fixed on it."""
    if not varying or len(points[varying].drop_duplicates()) <= MAX_PANELS:
        yield {}, points
        return
    first, *others = varying
    for value, group in points.groupby(first):
        for fixed, page in _pages(group, others):
            yield {first: value, **fixed}, page


def _spell(fixed: dict[str, Any]) -> str:
    """`{"dtype": "float16", "M": 64}` in a file name: `float16-M64`."""
    words = [str(value) if isinstance(value, str) else f"{name}{value}" for name, value in fixed.items()]
    return re.sub(r"[^\w.+-]+", "-", "-".join(words))


def _figure(
    page: pd.DataFrame,
    metric: str,
    x_name: str,
    fixed: dict[str, Any],
    varying: list[str],
    look: dict[str, Style],
    caption: str,
) -> Figure:
    inner = [name for name in varying if name not in fixed and page[name].nunique() > 1]
    panels: list[tuple[Any, pd.DataFrame]] = list(page.groupby(inner)) if inner else [((), page)]
    columns = 1 if len(panels) == 1 else 2
    rows = math.ceil(len(panels) / columns)
    bars = [panel["x"].nunique() <= 1 for _, panel in panels]
    tallest = max((panel["curve"].nunique() for (_, panel), bar in zip(panels, bars, strict=True) if bar), default=0)
    height = max(4.0 if columns == 1 else 3.4, 0.34 * tallest + 0.8)
    height = max(rows * height + 1.2, 0.22 * page["curve"].nunique() + 1.2)  # the legend is that tall
    figure = Figure(figsize=(8.5 if columns == 1 else 11, height), layout="constrained")
    FigureCanvasAgg(figure)
    heights = [panel["value"].max() for _, panel in panels]
    alike = max(heights) <= FLATTENED * min(heights) and not any(bars) and metric not in LOWER_IS_BETTER
    grid = figure.subplots(rows, columns, squeeze=False, sharey=alike)
    entries: dict[str, tuple[float, Artist]] = {}
    for axes, (values, panel), bar in zip(grid.flat, panels, bars, strict=False):
        where = dict(zip(inner, values, strict=True))
        if bar:
            if panel["x"].nunique() == 1 < page["x"].nunique():
                where[x_name] = f"{panel['x'].max():g}"
            _draw_bars(axes, panel, metric, look)
        else:
            entries |= _draw_lines(axes, panel, metric, look)
            scale_x(axes, sorted(panel["x"].dropna().unique()), room=12 if columns == 1 else 7)
            axes.set_xlabel(x_name)
        axes.set_title(_describe(where), loc="left")
    for axes, (_, panel), bar in zip(grid.flat, panels, bars, strict=False):
        if not bar:  # only now: a limit set on the first panel would hold for all that share its scale
            axes.set_ylabel(METRICS[metric])
            scale_y(axes, sorted(panel["value"]), may_be_log=metric in LOWER_IS_BETTER)
    for axes in list(grid.flat)[len(panels) :]:
        axes.remove()
    if entries:
        order = sorted(entries, key=lambda curve: entries[curve][0], reverse=True)
        figure.legend([entries[curve][1] for curve in order], order, loc="outside right center", fontsize=10)
    whole = {name: page[name].iloc[0] for name in _order(_configuration(page)) if page[name].nunique() == 1}
    figure.suptitle(_wrap(_describe(whole), 72 if columns == 1 else 95), x=0.01, ha="left")
    figure.supxlabel(_wrap(caption, 118 if columns == 1 else 150), x=0.01, ha="left", fontsize=8, color="#555555")
    return figure


def _draw_lines(
    axes: Axes, panel: pd.DataFrame, metric: str, look: dict[str, Style]
) -> dict[str, tuple[float, Artist]]:
    """Draw the curves of a panel. Returns each one's last value and its legend entry.

    A line breaks where a curve has no value at an x that others have.
    """
    entries: dict[str, tuple[float, Artist]] = {}
    xs = sorted(panel["x"].dropna().unique())
    for curve, group in panel.groupby("curve"):
        style = look[str(curve)]
        level, line = group[group["x"].isna()], _pool(group[group["x"].notna()], "x").reindex(xs)
        if len(level):
            pooled = _pool(level, "curve").iloc[0]
            entry: Artist = axes.axhline(pooled["value"], color=style.colour, linestyle="--", linewidth=1.4)
            axes.axhspan(pooled["low"], pooled["high"], color=style.colour, alpha=0.12, linewidth=0)
            entries[str(curve)] = (float(pooled["value"]), entry)
            continue  # what is swept has another name: triton-row[num_warps=*]
        (entry,) = axes.plot(
            line.index,
            line["value"],
            color=style.colour,
            linestyle=style.line,
            marker=style.marker,
            markevery=_marked(line["value"].notna().tolist()),
            markeredgecolor="white",
            markeredgewidth=0.6,
            zorder=2 if style is CEILING else 3,
        )
        axes.fill_between(line.index, line["low"], line["high"], color=style.colour, alpha=0.15, linewidth=0)
        entries[str(curve)] = (float(line["value"].dropna().iloc[-1]), entry)
    if metric == "speedup":
        axes.axhline(1, color=CEILING.colour, linewidth=1, zorder=1)
    return entries


def _marked(present: list[bool]) -> list[int]:
    """Which points of a line get a marker: about ten, and every one that no line reaches."""
    indices = [i for i, here in enumerate(present) if here]
    every = max(1, len(indices) // 10)
    alone = {i for i in indices if not any(present[max(0, i - 1) : i]) and not any(present[i + 1 : i + 2])}
    return sorted({*indices[::every], *alone})


def _draw_bars(axes: Axes, panel: pd.DataFrame, metric: str, look: dict[str, Style]) -> None:
    """One bar per curve, the fastest on top, with the value written beside it and the band as a whisker."""
    bars = _pool(panel, "curve").sort_values("value", ascending=metric not in LOWER_IS_BETTER, kind="stable")
    whiskers = [bars["value"] - bars["low"], bars["high"] - bars["value"]]
    colours = [look[str(curve)].colour for curve in bars.index]
    thin = {"ecolor": "#333333", "lw": 1}
    axes.barh(range(len(bars)), bars["value"], height=0.66, color=colours, xerr=whiskers, error_kw=thin)
    axes.set_yticks(range(len(bars)), [str(curve) for curve in bars.index])
    for place, (value, high) in enumerate(zip(bars["value"], bars["high"], strict=True)):
        axes.annotate(f"{value:.4g}", (high, place), (4, 0), textcoords="offset points", va="center", fontsize=10)
    axes.margins(x=0.12)
    axes.set_xlim(left=0)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(METRICS[metric])


def _pool(points: pd.DataFrame, by: str) -> pd.DataFrame:
    """One point per value of `by`: the median over sessions and the widest band."""
    return points.groupby(by).agg(value=("value", "median"), low=("low", "min"), high=("high", "max"))


def _caption(frame: pd.DataFrame, metric: str) -> str:
    """How it was measured, and what is not in the picture: no row goes missing without a word."""
    ok = frame[frame["status"] == Status.OK.value]
    providers = frame[frame["role"] == PROVIDER]
    dates = sorted({str(moment)[:10] for moment in ok["started_at"] if moment})
    sessions = ok["session"].nunique()
    parts = [f"{name} {'/'.join(sorted(set(ok[name])))}" for name in ("timer", "cache")]
    parts += [" to ".join(dict.fromkeys([dates[0], dates[-1]]))] if dates else []
    parts += [f"median of {sessions} sessions"] if sessions > 1 else []
    parts += ["band: p20 to p80"] if f"{metric}_p20" in frame else []
    lines = [" · ".join(parts)]
    lost = providers[providers["status"] != Status.OK.value]
    if len(lost):
        outcomes = []
        for status, group in lost.groupby("status"):
            names = _natural(curve_name(*pair) for pair in zip(group["provider"], group["params"], strict=True))
            outcomes.append(f"{len(group)} {status} ({', '.join(dict.fromkeys(names))})")
        lines.append(f"not drawn: {len(lost)} of {len(providers)} rows were not ok: {'; '.join(outcomes)}")
    without = int(((providers["status"] == Status.OK.value) & ~_measured(providers[metric])).sum())
    if without:
        lines.append(f"not drawn: {without} ok rows have no {metric}")
    flags = pd.Series([flag for row in providers["flags"] for flag in str(row).split(";") if flag], dtype="str")
    if len(flags):
        counts = flags.value_counts().sort_index()
        lines.append("flagged rows: " + ", ".join(f"{flag} {count}" for flag, count in counts.items()))
    lines += [str(warning) for warning in frame.attrs.get("warnings", [])]
    return "\n".join(lines)


def _wrap(text: str, width: int) -> str:
    return "\n".join("\n".join(textwrap.wrap(line, width, subsequent_indent="    ")) for line in text.split("\n"))


def _order(names: list[str]) -> list[str]:
    """Title order: the operator, what it runs on last."""
    machine = ["timer", "cache", "device"]
    return [name for name in names if name not in machine] + ["device"]


def _describe(values: dict[str, Any]) -> str:
    """`softmax · float32 · M=4096`: names only where the value does not speak for itself."""
    plain = ("operator", "dtype", "device", "timer", "cache")
    known = {name: value for name, value in values.items() if value != ""}
    return " · ".join(str(value) if name in plain else f"{name}={value}" for name, value in known.items())


def _natural(names: Any) -> list[str]:
    """Sorted with numbers by size: num_warps=4 before num_warps=16."""

    def key(name: str) -> list[tuple[bool, int | str]]:
        return [(not part.isdecimal(), int(part) if part.isdecimal() else part) for part in re.split(r"(\d+)", name)]

    return sorted(map(str, names), key=key)
