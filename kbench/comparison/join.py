"""Which row of one results file belongs to which row of another: by what was measured, never by position."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from kbench import table
from kbench.results import PROVIDER, Status, curve_name
from kbench.table import TableError

CONDITIONS = ("device", "timer", "cache", "case_hash")
"""What must be equal on both sides for two times to be comparable."""


@dataclass(frozen=True)
class Key:
    """What was measured: the identity of a row without its session."""

    operator: str
    provider: str
    params: str
    axes: tuple[tuple[str, Hashable], ...]
    dtype: str

    @property
    def curve(self) -> str:
        return curve_name(self.provider, self.params)

    @property
    def label(self) -> str:
        """`softmax M=4096 N=256 float32 triton`"""
        return " ".join([self.operator, *(f"{name}={value}" for name, value in self.axes), self.dtype, self.curve])

    @property
    def order(self) -> tuple[Any, ...]:
        """For sorting: numbers by size, words by letter."""
        axes = [(isinstance(value, str), value) for _, value in self.axes]
        return (self.operator, self.dtype, axes, self.provider, self.params)


@dataclass(frozen=True)
class Side:
    """The sessions of one key in one file.

    ms          the median time of each session that has one, in ms
    sessions    how many sessions there are, with a time or not
    status      `ok` when all have one, else the status of the first that failed, else of the first without a time
    reason      why that session has none
    conditions  the values of CONDITIONS, several of a kind where sessions differ
    suspect     a session is faster than its memory can physically be
    """

    ms: tuple[float, ...]
    sessions: int
    status: Status
    reason: str
    conditions: dict[str, tuple[str, ...]]
    suspect: bool


@dataclass(frozen=True)
class Pair:
    """A key and what each file says about it; None where a file does not have it."""

    key: Key
    old: Side | None
    new: Side | None


def join(old: pd.DataFrame, new: pd.DataFrame) -> tuple[list[Pair], list[str]]:
    """Pair the provider rows of two frames that `table.read` returned, sorted by key, with notes for the reader.

    Raises TableError when an axis that only one file has varies in it, or a key has the same session twice.
    """
    shared = [axis for axis in table.axes(old) if axis in table.axes(new)]
    notes = _drop_extra_axes(old, shared) + _drop_extra_axes(new, shared)
    sides = [_sides(frame, shared) for frame in (old, new)]
    keys = sorted({*sides[0], *sides[1]}, key=lambda key: key.order)
    if not sides[0].keys() & sides[1].keys():
        notes.append("no rows in common" + _difference(*sides))
    return [Pair(key, sides[0].get(key), sides[1].get(key)) for key in keys], notes


def _drop_extra_axes(frame: pd.DataFrame, shared: list[str]) -> list[str]:
    path, notes = frame.attrs["path"], []
    for axis in table.axes(frame):
        if axis in shared:
            continue
        values = frame[axis].unique()
        if len(values) > 1:
            raise TableError(f"{path}: axis {axis} varies here and the other has none; compare files of one operator")
        notes += [f"{path}: axis {axis}={value} is not in the other file and was left out" for value in values]
    return notes


def _sides(frame: pd.DataFrame, axes: list[str]) -> dict[Key, Side]:
    rows: dict[Key, dict[int, dict[str, Any]]] = {}
    providers = frame[frame["role"] == PROVIDER].reset_index()
    for row in providers.to_dict("records"):
        values = tuple((axis, row[axis]) for axis in axes)
        key = Key(row["operator"], row["provider"], row["params"], values, row["dtype"])
        sessions, session = rows.setdefault(key, {}), row["session"]
        if session in sessions:
            where, first = f"{frame.attrs['path']}:{row['line']}", sessions[session]["line"]
            raise TableError(f"{where}: {key.label} session {session} is on line {first} already; delete one of them")
        sessions[session] = {str(name): value for name, value in row.items()}
    return {key: _side([sessions[session] for session in sorted(sessions)]) for key, sessions in rows.items()}


def _side(rows: list[dict[str, Any]]) -> Side:
    timed = [row for row in rows if _has_time(row)]
    lost = [_loss(row) for row in rows if not _has_time(row)]
    status, reason = min(lost, key=lambda loss: not loss[0].failed, default=(Status.OK, ""))
    return Side(
        ms=tuple(float(row["ms"]) for row in timed),
        sessions=len(rows),
        status=status,
        reason=reason,
        conditions={name: tuple(sorted({row[name] for row in timed})) for name in CONDITIONS},
        suspect=any("suspect" in row["flags"].split(";") for row in timed),
    )


def _has_time(row: dict[str, Any]) -> bool:
    return bool(row["status"] == Status.OK.value and 0 < row["ms"] < math.inf)


def _loss(row: dict[str, Any]) -> tuple[Status, str]:
    """Why a row has no time. No run writes `ok` without one: such a cell was lost on the way."""
    status = Status(row["status"])
    return (Status.ERROR, f"ok, but its time is {row['ms']}") if status is Status.OK else (status, row["reason"])


def _difference(old: dict[Key, Side], new: dict[Key, Side]) -> str:
    """What the keys of two files disagree on, for files with none in common."""
    before, after = _values(old), _values(new)
    return "".join(
        f"; {name} is {_few(before[name])} in the old file, {_few(after[name])} in the new"
        for name in before
        if name in after and not before[name] & after[name]
    )


def _values(sides: dict[Key, Side]) -> dict[str, set[str]]:
    values: dict[str, set[str]] = {}
    for key in sides:
        named = {"operator": key.operator, "provider": key.curve, **dict(key.axes), "dtype": key.dtype}
        for name, value in named.items():
            values.setdefault(name, set()).add(str(value))
    return values


def _few(values: set[str]) -> str:
    return ", ".join(sorted(values)[:3]) + (", ..." if len(values) > 3 else "")
