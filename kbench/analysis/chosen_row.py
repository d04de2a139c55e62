"""The row that the terms of `--row` choose: one configuration in one case, with all its sessions."""

from __future__ import annotations

from collections.abc import Sequence

from kbench.errors import UsageError
from kbench.results.reader import Results
from kbench.results.row import Row
from kbench.results.row_filter import RowFilter

MOST_VALUES = 8
"""How many values an error names."""


def find_row(results: Results, terms: str) -> list[Row]:
    """The rows of the sessions of one configuration in one case. Raises UsageError if the terms choose none, or several."""
    rows = RowFilter.parse(terms).select_providers(results).provider_rows
    if len({(row.case, row.configuration_name) for row in rows}) > 1:
        path = results.path
        message = f"--row {terms!r} chooses more than one row of {path}" if terms else f"{path} has more than one row"
        raise UsageError(f"{message}: {_differing(rows)}; add a term for each of these to --row")
    return rows


def _differing(rows: Sequence[Row]) -> str:
    """What the rows differ in: `N is 256, 512 or 1024; provider is triton or cuda`."""
    values: dict[str, dict[str, None]] = {}
    for row in rows:
        for name, value in {**row.case.axes, "dtype": row.case.dtype, "provider": row.configuration_name}.items():
            values.setdefault(name, {})[str(value)] = None
    differences = []
    for name, several in values.items():
        if len(several) > 1:
            more = ", ..." if len(several) > MOST_VALUES else ""
            differences.append(f"{name} is {', '.join(list(several)[:MOST_VALUES])}{more}")
    return "; ".join(differences)
