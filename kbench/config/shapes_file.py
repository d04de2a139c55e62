"""Reads a CSV of shapes: `kbench run rmsnorm --shapes trace.csv`.

The first line names columns of the operator: axes, scalars, choices, `mode` and `dtype`, and also `model` and `tokens` as in
a sweep. Each further line is a shape. The column `weight` says how often the shape occurs; without it, each line counts once.
This module knows nothing about operators: resolve.py looks the columns up.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from kbench import files
from kbench.config.yaml_source import FLOAT, INTEGER, SCALARS, Node, code_point
from kbench.errors import ConfigError, ConfigIssue, SourceLocation
from kbench.text.suggest import as_written

MAX_BYTES = 16 << 20
MAX_LINES = 200_000
"""Limits of the file. To read and resolve this many lines takes about 10 s."""

WEIGHT = "weight"
"""The column that says how often a shape occurs."""

MAX_WEIGHT = 1e15
"""Limit of a weight, so that the sum over all lines is finite."""

_FEWER_LINES = "write equal shapes once, and add up their `weight`"

_CELL = re.compile(r'[ \t]*(?:"((?:[^"]|"")*)"[ \t]*|([^",]*))(,|$)')

_SEPARATOR = re.compile(r'"(?:[^"]|"")*"|[,;\t]')
"""A sign that may separate cells, or quoted text, in which it does not."""

_OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs"}
"""What some spreadsheets write between cells, and its name."""


@dataclass(frozen=True)
class Shape:
    """A line of the file: the values of its columns without the weight, as a mapping of a sweep, and the weight."""

    point: Node
    weight: float


@dataclass(frozen=True)
class ShapesFile:
    """A file of shapes. `columns` are the names of its columns and their places, with `weight`; `where` is its first line."""

    where: SourceLocation
    columns: Mapping[str, SourceLocation]
    rows: tuple[Shape, ...]


def read_shapes(path: Path) -> ShapesFile:
    """The shapes of a file. Raises ConfigError with the place of the first thing that is wrong."""
    source = str(path)
    lines = _lines(path)
    first = next(lines, None)
    if first is None:
        _fail(SourceLocation(source), "the file is empty; name the columns in the first line, for example M,N,weight")
    columns: dict[str, SourceLocation] = {}
    for where, name in first[1]:
        if not name:
            _fail(where, "a column has no name; name it, or remove it")
        if name in columns:
            _fail(where, f"the column {as_written(name)} appears twice; remove one of them")
        columns[name] = where
    rows = tuple(_shape(tuple(columns), where, cells) for where, cells in lines)
    if not rows:
        _fail(SourceLocation(source), "there is no shape below the names of the columns; add a line for each shape")
    return ShapesFile(first[0], columns, rows)


LocatedCells = list[tuple[SourceLocation, str]]


def _shape(names: tuple[str, ...], where: SourceLocation, cells: LocatedCells) -> Shape:
    if len(cells) != len(names):
        _fail(
            where, f"this line has {_fields(len(cells))}, and the first line has {_fields(len(names))}; repair the line"
        )
    weight, entries = 1.0, {}
    for name, (place, text) in zip(names, cells, strict=True):
        if not text:
            _fail(place, f"{name}: the cell is empty; write a value")
        if name == WEIGHT:
            weight = float(text) if FLOAT.fullmatch(text) else math.nan
            if not weight > 0:
                _fail(place, f"{WEIGHT}: expected a positive number; got {as_written(text)}")
            if weight > MAX_WEIGHT:
                _fail(place, f"{WEIGHT}: expected at most {MAX_WEIGHT:.0e}; got {as_written(text)}")
        else:
            entries[name] = Node([Node(_value(text), place, place)], place, place)  # a list: a cell takes no range
    return Shape(Node(entries, where, where), weight)


def _fields(count: int) -> str:
    return f"{count} field{'s' * (count != 1)}"


def _value(text: str) -> bool | int | float | str:
    """The value of a cell, as YAML would read it."""
    if isinstance(value := SCALARS.get(text.lower()), bool):
        return value
    if INTEGER.fullmatch(text):
        return int(text)
    return float(text) if FLOAT.fullmatch(text) else text


def _lines(path: Path) -> Iterator[tuple[SourceLocation, LocatedCells]]:
    """The lines of the file that are not blank: the place where each begins, and its cells."""
    for number, line in enumerate(_text(path).replace("\r\n", "\n").split("\n"), 1):
        if number > MAX_LINES:
            _fail(
                SourceLocation(str(path), number, 1),
                f"more than {MAX_LINES:,} lines; {_FEWER_LINES}",
            )
        if line.strip():
            yield SourceLocation(str(path), number, 1), list(_cells(str(path), number, line))


def _cells(source: str, number: int, line: str) -> Iterator[tuple[SourceLocation, str]]:
    signs = {sign for sign in _SEPARATOR.findall(line.strip()) if not sign.startswith('"')}
    if signs and "," not in signs:
        names = " and ".join(_OTHER_SEPARATORS[sign] for sign in sorted(signs))
        _fail(SourceLocation(source, number, 1), f"{names} separate the cells; separate the cells with commas")
    start, more = 0, ","
    while more:
        where = SourceLocation(source, number, start + 1)
        match = _CELL.match(line, start)
        if match is None:
            _fail(where, "not readable as CSV; check the quotes from here on")
        quoted, bare, more = match.groups()
        text = (bare if quoted is None else quoted.replace('""', '"')).strip()
        if sign := next((sign for sign in text if not sign.isprintable()), None):
            _fail(where, f"{as_written(text)} contains the unprintable character {code_point(sign)}; remove it")
        yield where, text
        start = match.end()


def _text(path: Path) -> str:
    where = SourceLocation(str(path))
    try:
        data = files.read_bytes(path, MAX_BYTES)
    except files.TooLong as error:
        _fail(where, f"{error}; {_FEWER_LINES}")
    except files.Unreadable as error:
        _fail(where, f"{error}; name a CSV of shapes")
    except FileNotFoundError:
        _fail(where, "no such file; name a CSV with a column for each axis")
    except OSError as error:
        _fail(where, f"cannot be read ({error.strerror}); check the path and its permissions")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        _fail(
            SourceLocation(str(path), line, column),
            f"not UTF-8 text (byte 0x{data[error.start]:02x}); save it as UTF-8",
        )


def _fail(where: SourceLocation, message: str) -> NoReturn:
    raise ConfigError([ConfigIssue(where, message)])
