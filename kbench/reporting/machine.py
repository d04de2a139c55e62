"""The machine, its software and the method of measurement, with the files side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kbench.analysis.files import ResultsFile
from kbench.results.row import CONDITION_COLUMNS
from kbench.results.vocabulary import Role, Status

DATES = ("command", "started_at", "finished_at")
"""Entries that differ between any two runs. The page does not mark their differences."""

APART = ("config", "env_id", "places", "environments", "continued")
"""Entries of the environment file that the page does not show, or shows elsewhere."""

BYTES = ("cache_bytes", "total_memory")
MIB = 2**20

DIFFERS = "≠ differs"

SideBySide = tuple[list[str], list[list[str]]]
"""The heads and the rows of a table with a line for each property and a column for each file."""


def measurement(sources: Sequence[ResultsFile]) -> SideBySide:
    """How and on which machine each file was measured: a line per property that at least one file has. A missing value is no
    difference."""
    columns = [_properties(source) for source in sources]
    rows = []
    for name in dict.fromkeys(name for column in columns for name in column):
        values = [column.get(name, "") for column in columns]
        differs = len(set(values) - {""}) > 1 and name not in DATES
        rows.append([name, *values, DIFFERS if differs else ""])
    return ["", *(source.label for source in sources), ""], rows


def runs(sources: Sequence[ResultsFile]) -> list[dict[str, str]]:
    """What repeats the measurement of each file: the command and the config, where the environment file has them."""
    commands = []
    for source in sources:
        environment = source.environment
        path, text = (environment.config.path, environment.config.text) if environment.config else ("", "")
        commands.append({"file": source.label, "command": " ".join(environment.command), "path": path, "text": text})
    return [run for run in commands if run["command"] or run["text"]]


def _properties(source: ResultsFile) -> dict[str, str]:
    """Device, timer, cache and sessions from the rows, everything else from the environment file."""
    timed = [row for row in source.rows if row.status is Status.OK and row.role is Role.PROVIDER]
    of_rows = {name: "/".join(sorted({getattr(row, name) for row in timed} - {""})) for name in CONDITION_COLUMNS}
    of_rows |= {"sessions": str(len({row.session for row in source.rows})), "rows": str(len(source.rows))}
    entries = {name: value for name, value in source.environment.entries().items() if name not in APART}
    config = source.environment.config
    entries |= {"command": " ".join(source.environment.command), "config sha": config.sha if config else ""}
    return {name: value for name, value in {**of_rows, **_flat(entries)}.items() if value}


def _flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested entries under dotted names, without empty values."""
    entries: dict[str, str] = {}
    for name, value in data.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping):
            entries |= _flat(value, f"{path}.")
        elif name in BYTES and isinstance(value, int):
            entries[path] = f"{value / MIB:,.0f} MiB"
        elif isinstance(value, bool):
            entries[path] = "yes" if value else "no"
        elif isinstance(value, list):
            entries |= {path: ", ".join(map(str, value))} if value else {}
        elif value is not None and value != "":
            entries[path] = str(value)
    return entries
