"""The row that the terms of `--row` choose: one configuration in one case, with all its sessions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from kbench.analysis.frame_rows import rows_of
from kbench.errors import UsageError
from kbench.results.row import Row
from kbench.results.row_filter import RowFilter
from kbench.results.vocabulary import Role

MOST_VALUES = 8
"""How many values an error names."""


def find_row(frame: pd.DataFrame, path: Path, terms: str) -> list[Row]:
    """The rows of the sessions of one configuration in one case. `frame` is what the file at `path` holds. Raises UsageError if
    the terms choose none, or several."""
    try:
        wanted = RowFilter.parse(terms)
        chosen = wanted.select(frame)
        if not (chosen["role"] == Role.PROVIDER).any():
            raise UsageError(wanted.nothing(frame))
    except UsageError as error:
        raise UsageError(str(error).replace("--where", "--row", 1)) from None
    rows = [row for row in rows_of(chosen) if row.role == Role.PROVIDER]
    if len({(row.case.key, row.configuration_name) for row in rows}) > 1:
        what = f"--row {terms!r} chooses more than one row of {path}" if terms else f"{path} has more than one row"
        raise UsageError(f"{what}: {_differing(rows)}; add a term for each of these to --row")
    return rows


def terms_of(row: Row, among: Sequence[Row]) -> str:
    """Terms that choose a row among others: the provider, and the sizes and the dtype in which the cases differ."""
    terms = [f"provider={row.configuration_name}"]
    for name, value in {**row.case.axes, "dtype": row.case.dtype}.items():
        if len({{**other.case.axes, "dtype": other.case.dtype}.get(name) for other in among}) > 1:
            terms.append(f"{name}={value}")
    return ",".join(terms)


def _differing(rows: Sequence[Row]) -> str:
    """What the rows differ in: `N is 256, 512 or 1024; provider is triton or cuda`."""
    values: dict[str, dict[str, None]] = {}
    for row in rows:
        for name, value in {**row.case.axes, "dtype": row.case.dtype, "provider": row.configuration_name}.items():
            values.setdefault(name, {})[str(value)] = None
    named = {name: list(found) for name, found in values.items() if len(found) > 1}
    return "; ".join(
        f"{name} is {', '.join(found[:MOST_VALUES])}{', ...' * (len(found) > MOST_VALUES)}"
        for name, found in named.items()
    )
