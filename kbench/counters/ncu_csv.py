"""Reads what `ncu --csv` prints. It has two forms:

    --page raw      a line for each launch and a column for each metric; the second line has the units
    other pages     a line for each launch and metric, with the columns Metric Name, Metric Unit and Metric Value

Lines of messages, which begin with `==`, may stand before the table. Numbers may have commas between thousands.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence

from kbench.counters.kernel_counters import KernelCounters, from_metrics
from kbench.text.printable import printable

_NAME_CHARACTERS = 4000

MOST_LAUNCHES_READ = 100_000

_DECIMAL = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
UNITS = (
    {f"{prefix}byte": factor for prefix, factor in _DECIMAL.items()}
    | {f"{prefix}second": factor for prefix, factor in {"n": 1.0, "u": 1e3, "m": 1e6, "": 1e9}.items()}
    | {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
)
"""What a number is multiplied by to have bytes, or ns. Units that are not here have the factor 1, such as `%`."""


class NotCounters(ValueError):
    """The text is no CSV of Nsight Compute. The message says why."""


def read_ncu_csv(text: str) -> list[KernelCounters]:
    """The counters of each launch in the table, in its order. Raises NotCounters."""
    lines = (line for line in text.splitlines() if not line.startswith("==") and line.strip())
    try:
        rows = list(csv.reader(lines, strict=True))
    except csv.Error as error:
        raise NotCounters(f"it is no CSV ({error})") from None
    start = next((number for number, row in enumerate(rows) if "Kernel Name" in row), None)
    if start is None:
        raise NotCounters('it has no column "Kernel Name"')
    header = rows[start]
    if len(rows) - start > MOST_LAUNCHES_READ:
        raise NotCounters(f"it has more than {MOST_LAUNCHES_READ} lines")
    found = list(_long(header, rows[start + 1 :]) if "Metric Name" in header else _wide(header, rows[start + 1 :]))
    if not found:
        raise NotCounters("it has no launch of a kernel")
    if not any(one.time_ns or one.dram_bytes or one.warps_percent for one in found):
        raise NotCounters(
            "it has no metrics by which kbench could judge; make it with: ncu --import REPORT --csv --page raw"
        )
    return found


def _wide(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[KernelCounters]:
    name = header.index("Kernel Name")
    units: Sequence[str] = ()
    for row in rows:
        if len(row) != len(header):
            raise NotCounters(f"a line has {len(row)} cells, and the header has {len(header)}")
        if not row[name]:
            units = row
            continue
        values = {}
        for place, metric in enumerate(header):
            value = _number(row[place], units[place] if units else "")
            if "__" in metric and value is not None:
                values[metric] = value
        yield from_metrics(printable(row[name], _NAME_CHARACTERS), values)


def _long(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[KernelCounters]:
    try:
        places = [header.index(title) for title in ("ID", "Kernel Name", "Metric Name", "Metric Unit", "Metric Value")]
    except ValueError as error:
        raise NotCounters(f"a column is missing: {error}") from None
    launches: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        if len(row) <= max(places):
            raise NotCounters(f"a line has {len(row)} cells, and the header has {len(header)}")
        launch, name, metric, unit, text = (row[place] for place in places)
        values = launches.setdefault((launch, name), {})
        value = _number(text, unit)
        if "__" in metric and value is not None:
            values[metric] = value
    for (_, name), values in launches.items():
        yield from_metrics(printable(name, _NAME_CHARACTERS), values)


def _number(text: str, unit: str) -> float | None:
    """The number in base units; None for `n/a`, for words, and for what is no number that can be counted."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return value * UNITS.get(unit, 1.0) if 0 <= value < float("inf") else None
