"""Reads a CSV of shapes: `kbench run rmsnorm --shapes trace.csv`.

The first line names columns of the operator: axes, scalars, choices, `mode` and `dtype`, and also `model` and `tokens` as in
a sweep. Each further line is a shape. The column `weight` says how often the shape occurs; without it, each line counts once.
"""

from __future__ import annotations

import csv
from pathlib import Path

from kbench.config.document import Node, scalar
from kbench.errors import ConfigError, ConfigIssue, SourceLocation

WEIGHT = "weight"
"""The column that says how often a shape occurs."""


def read_shapes(path: Path) -> Node:
    """The lines of a CSV, as the list of mappings of a sweep. Raises ConfigError."""
    source = str(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, skipinitialspace=True)
            lines = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader if any(cells)]
    except OSError as error:
        message = f"{(error.strerror or str(error)).lower()}; name a CSV with a column for each axis"
        raise ConfigError([ConfigIssue(SourceLocation(source), message)]) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError([ConfigIssue(SourceLocation(source), f"is no CSV in UTF-8: {error}")]) from None
    if len(lines) < 2:
        message = "expected the names of the columns, for example M,N,weight, and a line for each shape"
        raise ConfigError([ConfigIssue(SourceLocation(source), message)])
    (first, names), *shapes = lines
    if len(set(names)) < len(names):
        raise ConfigError([ConfigIssue(SourceLocation(source, first, 1), "two columns have the same name")])
    points = []
    for number, cells in shapes:
        line = SourceLocation(source, number, 1)
        if len(cells) != len(names):
            message = f"this line has {len(cells)} fields, and the first line has {len(names)} fields; repair the line"
            raise ConfigError([ConfigIssue(line, message)])
        entries = {}
        for index, (name, cell) in enumerate(zip(names, cells, strict=True)):
            place, head = (
                SourceLocation(source, n, _column(row, index)) for n, row in ((number, cells), (first, names))
            )
            entries[name] = Node([Node(scalar(cell), place, place)], place, head)  # a list: a cell takes no range
        points.append(Node(entries, line, line))
    return Node(points, SourceLocation(source), SourceLocation(source))


def _column(cells: list[str], index: int) -> int:
    """Where a cell begins, if no cell has quotes or blanks around it."""
    return 1 + sum(len(cell) + 1 for cell in cells[:index])
