"""What the interactive plot needs beside the rows: what each row is drawn as, what can run along x, metrics and colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from kbench.analysis.files import ResultsFile
from kbench.analysis.metrics import DRAWN, Metric, default_metric
from kbench.plotting.selection.along import (
    companions,
    curve_along,
    models_along,
    numeric,
    parameter_numbers,
    x_candidates,
)
from kbench.plotting.selection.pages import MOST_BARS
from kbench.plotting.selection.points import ABSENT, COPY_CURVE, HOLLOW, axis_names, kinds_of
from kbench.plotting.style.colours import slots
from kbench.plotting.style.theme import MARKERS, THEMES, Theme
from kbench.reporting.json_columns import Json, six_digits, word_column
from kbench.results.case import configuration_name
from kbench.results.vocabulary import Flag

SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "star")
LINE_DASHES = ("solid", "dash", "dot", "dashdot", "8px,2px,2px,2px,2px,2px", "2px,6px")
"""Plotly's names for the markers and line styles of kbench/plotting/style/theme.py, in the same order."""

Numbers = dict[str, "pd.Series[float]"]
"""The values of parameters by name, for every row."""


def plot_data(joined: pd.DataFrame, sources: Sequence[ResultsFile]) -> Json:
    """The data of the plot of the rows that `joined_rows` returned.

    metrics     what can be drawn
    metric      the name of the metric that is drawn first
    kinds       by metric, what each row is drawn as: `value`, a mark, or "" for nothing
    sweeps      for each operator and file, what can run along x; the file "" stands for all files together
    parameters  by parameter, the x of each curve (null where it has none), and the line that it belongs to
    slots       by parameter that runs along x, "" for an axis: the place of each line in the palette, and its turn
    """
    drawn = joined[joined["line"] != ""]
    kinds = {name: _kinds(joined, metric) for name, metric in DRAWN.items()}
    numbers = parameter_numbers(drawn)
    return {
        "metrics": [_metric(metric) for metric in DRAWN.values()],
        "metric": default_metric(source.rows for source in sources),
        "kinds": {name: word_column(name, found) for name, found in kinds.items()},
        "sweeps": _sweeps(drawn, kinds, numbers, axis_names(sources)),
        "parameters": _parameters(drawn, numbers),
        "slots": _slots(drawn, sources, numbers),
        "themes": {name: _palette(theme) for name, theme in THEMES.items()},
        "symbols": SYMBOLS,
        "dashes": LINE_DASHES,
        "copy": COPY_CURVE,
        "hollow": HOLLOW,
        "suspect": Flag.SUSPECT,
        "peaks": {source.label: source.peak_gbps for source in sources},
        "most_bars": MOST_BARS,
    }


def _metric(metric: Metric) -> Json:
    return {
        "name": metric.name,
        "column": metric.column,
        "label": metric.label,
        "scale": metric.scale,
        "lower": metric.lower_is_better,
        "ratio": metric.ratio,
        "timed": metric.timed,
        "copy": metric.has_copy,
    }


def _kinds(joined: pd.DataFrame, metric: Metric) -> pd.Series[str]:
    hidden = (joined["line"] == "") | ((joined["line"] == COPY_CURVE) & (not metric.has_copy))
    return kinds_of(joined, metric).mask(hidden, ABSENT)


def _sweeps(drawn: pd.DataFrame, kinds: dict[str, pd.Series[str]], numbers: Numbers, axes: Sequence[str]) -> list[Json]:
    found = []
    files = list(drawn["file"].unique())
    for operator, rows in drawn.groupby("operator", sort=False):
        for file in [*files, ""] if len(files) > 1 else files:
            part = rows[rows["file"] == file] if file else rows
            if len(part):
                found.append({"operator": operator, "file": file, **_sweep(part, kinds, numbers, axes)})
    return found


def _sweep(part: pd.DataFrame, kinds: dict[str, pd.Series[str]], numbers: Numbers, axes: Sequence[str]) -> Json:
    """What can run along x for some rows.

    options  the axes that vary and the parameters that were set to several numbers
    usual    by metric, the one to draw against first
    paired   by axis along x, the axes that vary with it one to one, and a sentence about each; also the models of its sizes
    """
    sizes = [axis for axis in numeric(part, axes) if part[axis].notna().any()]
    options = [axis for axis in sizes if part[axis].nunique(dropna=False) > 1]
    swept = {name: column for name, column in numbers.items() if column.loc[part.index].nunique() > 1}
    usual = {
        name: x_candidates(part.assign(kind=found.loc[part.index]), sizes, swept, len(MARKERS)).usual
        for name, found in kinds.items()
    }
    paired = {axis: companions(part, axes, axis) for axis in sizes}
    for axis in sizes:
        if models := models_along(part, axis):
            paired[axis]["model"] = models
    return {"options": [*options, *swept], "usual": usual, "paired": paired}


def _parameters(drawn: pd.DataFrame, numbers: Numbers) -> Json:
    first = drawn.drop_duplicates("line")
    found = {}
    for name, column in numbers.items():
        xs = dict(zip(first["line"], map(six_digits, column.loc[first.index]), strict=True))
        lines = {
            line: line if xs[line] is None else curve_along(provider, params, name)
            for line, provider, params in zip(first["line"], first["provider"], first["params"], strict=True)
        }
        found[name] = {"x": xs, "line": lines}
    return found


def _slots(
    drawn: pd.DataFrame, sources: Sequence[ResultsFile], numbers: Numbers
) -> dict[str, dict[str, tuple[int, int]]]:
    everyone = frozenset().union(*(source.configurations for source in sources))
    found = {"": slots(everyone)}
    pairs = set(zip(drawn["provider"], drawn["params"], strict=True))
    for name in numbers:
        found[name] = slots({curve_along(*pair, name) for pair in pairs if configuration_name(*pair) in everyone})
    return found


def _palette(theme: Theme) -> dict[str, Any]:
    names = ("background", "ink", "muted", "quiet", "grid", "colours")
    return {name: getattr(theme, name) for name in names}
