"""The table of all rows of all files."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from kbench.analysis.files import ResultsFile
from kbench.plotting.selection.points import axis_names, curves_of, fixed_columns
from kbench.reporting.json_columns import Json, number_column, word_column
from kbench.results.case import configuration_name
from kbench.results.row import COLUMNS

NUMBER_FORMATS = {
    "ms": "us",
    "ms_p20": "us",
    "ms_p80": "us",
    "gbps": "gbps",
    "gbps_p20": "gbps",
    "gbps_p80": "gbps",
    "copy_fraction": "share",
    "tflops": "gbps",
    "sol": "share",
    "speedup": "factor",
    "max_ulp": "ulp",
    "launch_ms": "us",
    "build_ms": "whole",
    "sm_mhz": "whole",
    "power_w": "whole",
    "temp_c": "whole",
    "ceiling_gbps": "gbps",
    "ceiling_tflops": "gbps",
}
"""The columns of numbers that the page shows, and the formats in which it writes them. `us` shows ms as microseconds."""

WORD_COLUMNS = ("timer", "cache", "device", "throttle", "reason")

HIDDEN_COLUMNS = ("line", "role", "gbps_p20", "gbps_p80", "ceiling_gbps", "ceiling_tflops")
"""Columns that the plot needs and the table does not show."""


def joined_rows(sources: Sequence[ResultsFile]) -> pd.DataFrame:
    """All rows of all files, with three columns more.

    file   the label of the file
    curve  the provider with its parameters, for controls the control
    line   the line of the plot: the curve, COPY_CURVE for the copy control, "" for the other controls
    """
    joined = pd.concat([source.frame.assign(file=source.label) for source in sources], ignore_index=True)
    curves = [configuration_name(*pair) for pair in zip(joined["provider"], joined["params"], strict=True)]
    models = joined["model"].str.replace(";", ", ")
    return joined.assign(curve=pd.Series(curves, joined.index, dtype="object"), line=curves_of(joined), model=models)


def row_table(joined: pd.DataFrame, sources: Sequence[ResultsFile]) -> Json:
    """The table of the rows that `joined_rows` returned.

    columns        the columns
    hidden         names of columns that are not shown
    axes           names of the axes and choices
    fixed          names of the columns whose values must be equal along a line
    """
    names = axis_names(sources)
    identity = {"file": "file", "operator": "operator", "curve": "provider", **{name: name for name in names}}
    identity |= {"dtype": "dtype", "session": "session", "role": "role", "status": "status", "flags": "flags"}
    return {
        "count": len(joined),
        "axes": names,
        "fixed": fixed_columns(joined, sources),
        "hidden": HIDDEN_COLUMNS,
        "columns": [
            *(word_column(name, joined[name], label) for name, label in identity.items()),
            *([word_column("model", joined["model"])] if joined["model"].any() else []),
            *([word_column("weight", joined["weight"])] if joined["weight"].notna().any() else []),
            *(
                number_column(name, joined[name], COLUMNS[name].heading("µs" if shown == "us" else ""), shown)
                for name, shown in NUMBER_FORMATS.items()
            ),
            *(word_column(name, joined[name]) for name in (*WORD_COLUMNS, "line")),
        ],
    }
