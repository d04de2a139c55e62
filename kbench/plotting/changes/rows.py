"""The rows of a comparison as a table."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from kbench.analysis.files import unclaimed
from kbench.comparison.model import Comparison
from kbench.plotting.style.formatting import shorten

PROVIDER_COLUMN, FILE_COLUMN = "provider", "file"


def change_rows(comparison: Comparison) -> tuple[pd.DataFrame, list[str], list[str]]:
    """A row per verdict, the names of the axes, and the columns that identify a row, the outermost first.

    word       the verdict
    effect     the logarithm of the ratio of new to old, NaN where there is none
    low, high  the ends of its 95 % interval
    """
    rows: list[dict[str, Any]] = []
    axes = unclaimed(list(dict.fromkeys(name for verdict in comparison.rows for name, _ in verdict.key.axes)))
    names = shorten({row.key.configuration_name for row in comparison.rows})
    for verdict in comparison.rows:
        key = verdict.key
        rows.append(
            {
                FILE_COLUMN: comparison.new,
                "operator": key.operator,
                PROVIDER_COLUMN: names[key.configuration_name],
                "dtype": key.dtype,
                **{axes[name]: value for name, value in key.axes},
                "word": verdict.verdict.value,
                "effect": _log(verdict.ratio),
                "low": _log(verdict.ci[0] if verdict.ci else None),
                "high": _log(verdict.ci[1] if verdict.ci else None),
                "kind": "value",
            }
        )
    return pd.DataFrame(rows), list(axes.values()), [FILE_COLUMN, "operator", *axes.values(), PROVIDER_COLUMN, "dtype"]


def _log(ratio: float | None) -> float:
    return math.log(ratio) if ratio is not None and 0 < ratio < math.inf else math.nan
