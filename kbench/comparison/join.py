"""Pairs the rows of two sides by operator, case and provider, never by their position in the file."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any

from pydantic import ConfigDict, Field, PlainSerializer, computed_field, with_config

from kbench.analysis.cases import weight_of
from kbench.errors import ResultsError, UsageError
from kbench.launches.code_change import RanKernels
from kbench.results.case import FORWARD, Value, configuration_name, value_order
from kbench.results.cells import is_plausible
from kbench.results.reader import Results
from kbench.results.row import CONDITION_COLUMNS, Row
from kbench.results.timers import timer_kind
from kbench.results.vocabulary import Flag, Role, Status
from kbench.text.words import list_words, plural

CONDITIONS = (*CONDITION_COLUMNS, "case_hash")
"""Two times are comparable when these columns agree."""

CaseId = tuple[str, tuple[tuple[str, Value], ...], str]
"""Operator, axes (with scalars, choices and mode) and dtype."""

exported = with_config(ConfigDict(extra="forbid", use_attribute_docstrings=True))
"""The fields of such a class are keys of the JSON. The text below a field is its description in the schema."""


@dataclass(frozen=True)
class Key:
    """The identity of a row without its session."""

    operator: str
    provider: str
    params: str
    axes: tuple[tuple[str, Value], ...]
    dtype: str

    @property
    def case(self) -> CaseId:
        return self.operator, self.axes, self.dtype

    @property
    def columns(self) -> dict[str, Value]:
        """The columns that identify the row, for programs: values keep their type."""
        who: dict[str, Value] = {"operator": self.operator, "provider": self.provider, "params": self.params}
        return {**who, **dict(self.axes), "dtype": self.dtype}

    @property
    def configuration_name(self) -> str:
        return configuration_name(self.provider, self.params)

    @property
    def label(self) -> str:
        """`softmax M=4096 N=256 float32 triton`"""
        axes = (f"{name}={value}" for name, value in self.axes)
        return " ".join([self.operator, *axes, self.dtype, self.configuration_name]).strip()

    @property
    def order(self) -> tuple[Any, ...]:
        """For sorting: numbers by size, words by letter, modes in their own order."""
        axes = [value_order(value) for _, value in self.axes]
        return (self.operator, self.dtype, axes, self.provider, self.params)


@dataclass(frozen=True)
class Reading:
    """One session's measurement of a key. `value` is the metric that is compared, `rounds` are the medians of its rounds in ms.

    Empty cells are None, not NaN, so that equal readings compare equal.
    """

    session: int
    value: float
    ms: float
    rounds: tuple[float, ...] = ()
    samples: float | None = None
    started_at: str = ""


@exported
@dataclass(frozen=True)
class Side:
    """The sessions of a row on one side."""

    readings: Annotated[tuple[Reading, ...], Field(exclude=True)]
    """The sessions that have a time and the metric."""
    sessions: int
    """The number of sessions, with and without a time."""
    timed: int
    """The number of sessions with a time, with and without the metric."""
    status: Status = Status.OK
    """ok if every session has a time, else the status of the first that failed, else of the first without a time."""
    reason: str = ""
    """Why that session has no time."""
    conditions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The device, the timer, the cache mode and the definition of the case; several values where sessions differ."""
    suspect: bool = False
    """Whether at least one session is faster than it can be."""
    weight: float | None = None
    """How often the case occurs. Null if the file does not tell."""
    ran: Annotated[RanKernels, Field(exclude=True)] = field(default_factory=RanKernels)
    """The kernels that it ran."""

    @computed_field  # type: ignore[prop-decorator]
    @cached_property
    def value(self) -> float | None:
        """The geometric mean of the metric over the sessions. Null if no session has a time and the metric."""
        return statistics.geometric_mean([reading.value for reading in self.readings]) if self.readings else None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def kernels(self) -> list[int]:
        """How many kernels a call launches. Several numbers if sessions differ; empty if it is not known."""
        return sorted(self.ran.kernels)

    def differing_conditions(self, other: Side, vary: Collection[str]) -> str:
        """The conditions that differ between the sides or within one, as `timer do_bench -> graph`. Those in `vary` are
        ignored."""
        return ", ".join(
            f"{name} {'/'.join(self.conditions[name]) or 'unknown'} -> {'/'.join(other.conditions[name]) or 'unknown'}"
            for name in self.conditions
            if name not in vary and (self.conditions[name] != other.conditions[name] or len(self.conditions[name]) != 1)
        )


@exported
@dataclass(frozen=True)
class Pair:
    """A key with its measurements on both sides."""

    key: Annotated[Key, PlainSerializer(lambda key: key.columns, return_type=dict[str, Value])]
    """The columns that identify the row on both sides."""
    old: Side | None
    """The old side. Null if it does not have the row."""
    new: Side | None
    """The new side. Null if it does not have the row."""

    @property
    def sides(self) -> tuple[Side, Side]:
        """Both sides of a pair that has both."""
        assert self.old and self.new
        return self.old, self.new

    @property
    def sessions(self) -> int:
        """The number of sessions behind the change."""
        old, new = self.sides
        return min(len(old.readings), len(new.readings))

    @property
    def weight(self) -> float | None:
        """How often the case occurs, as the old side says, or else the new one; None if neither does."""
        return next((side.weight for side in (self.old, self.new) if side and side.weight is not None), None)

    @property
    def timer_step(self) -> float:
        """The resolution of the timer as a share of the shortest time; 0 if one of the timers has no steps."""
        steps_ms = [
            timer_kind(name).resolution_ms for side in self.sides for name in side.conditions.get("timer") or ("",)
        ]
        return min(steps_ms) / min(reading.ms for side in self.sides for reading in side.readings)


Sides = dict[Key, Side]


def common_axes(old: Results, new: Results) -> list[str]:
    """The columns that identify a case in both files: the axes that they share, and `device` if a file has rows of several
    devices."""
    shared = [axis for axis in old.axes if axis in new.axes]
    return [*shared, "device"] if several_devices(old) or several_devices(new) else shared


def case_id(row: Row, axes: Sequence[str]) -> CaseId:
    """The case of a row by the columns of `common_axes`."""
    values = tuple((axis, row.device if axis == "device" else row.case.axes[axis]) for axis in axes)
    return row.case.operator, values, row.case.dtype


def several_devices(results: Results) -> bool:
    """Whether a file has rows of several devices. The device then identifies a case; it is not a condition."""
    return len({row.device for row in results.rows} - {""}) > 1


def ignore_axes(old: Results, new: Results) -> list[str]:
    """Notes on the axes that one of two files lacks. Raises UsageError when the rows cannot be matched without such an axis:
    it has several values, or is a mode that the other file does not have."""
    notes = []
    for having, lacking in ((old, new), (new, old)):
        for axis in (axis for axis in having.axes if axis not in lacking.axes):
            values = list(dict.fromkeys(row.case.axes[axis] for row in having.rows))
            # a file without modes has forward passes only
            other_mode = axis == "mode" and lacking.rows and any(value != FORWARD for value in values)
            if len(values) > 1 or other_mode:
                which = f"several values of the axis {axis}" if len(values) > 1 else f"only {axis}={values[0]}"
                remedy = f"measure one value of {axis}"
                if other_mode:
                    with_forward = FORWARD in values
                    remedy = (
                        f"compare the forward rows with --where {axis}={FORWARD}" if with_forward else "measure both"
                    )
                raise UsageError(
                    f"{having.path}: this file has {which}, but {lacking.path} has no such axis, so their rows cannot be "
                    f"matched; compare files with the same axes, or {remedy}"
                )
            name = "=".join(map(str, [axis, *values]))
            notes.append(f"the axis {name} was ignored, because {lacking.path} has no such axis")
    return notes


def sides_of(results: Results, axes: Sequence[str], metric: str) -> Sides:
    """The sides of a file. `axes` are those of `common_axes`. Raises ResultsError when a key has the same session twice."""
    rows_of_keys: dict[Key, dict[int, tuple[int, Row]]] = {}  # by key and session: the line and the row
    for line, row in zip(results.lines, results.rows, strict=True):
        if row.role != Role.PROVIDER:
            continue
        operator, values, dtype = case_id(row, axes)
        key = Key(operator, row.provider, row.params, values, dtype)
        sessions = rows_of_keys.setdefault(key, {})
        if row.session in sessions:
            # They were measured in two ways: read_results refuses a row that a session has twice.
            first, other = sessions[row.session]
            differ = [name for name in CONDITION_COLUMNS if getattr(row, name) != getattr(other, name)]
            raise ResultsError(
                f"{results.path}:{line}: {key.label} session {row.session} is also on line {first}, with another "
                f"{list_words(differ)}; compare one of them, for example with --where {differ[0]}={getattr(other, differ[0])}"
            )
        sessions[row.session] = line, row
    return {
        key: _side([row for _, (_, row) in sorted(sessions.items())], metric) for key, sessions in rows_of_keys.items()
    }


def _side(rows: list[Row], metric: str) -> Side:
    timed = [row for row in rows if row.ms is not None]
    lost = [(row.status, row.reason) for row in rows if row.ms is None]
    status, reason = min(lost, key=lambda loss: not loss[0].failed, default=(Status.OK, ""))
    return Side(
        readings=tuple(reading for row in timed if (reading := _reading(row, metric))),
        sessions=len(rows),
        timed=len(timed),
        status=status,
        reason=reason,
        conditions={name: tuple(sorted({getattr(row, name) for row in timed})) for name in CONDITIONS},
        suspect=any(Flag.SUSPECT in row.flags for row in timed),
        weight=weight_of(rows),
        ran=RanKernels.of((row.code, row.kernels, row.sm_mhz) for row in timed),
    )


def _reading(row: Row, metric: str) -> Reading | None:
    """None for a row without a plausible value of the metric. The row must have a time."""
    value: float | None = getattr(row, metric)
    if row.ms is None or value is None or not is_plausible(value):
        return None
    return Reading(row.session, value, row.ms, row.round_ms, row.samples, row.started_at)


def pairs(old: Sides, new: Sides) -> list[Pair]:
    """A pair for each key that a side has, sorted by key."""
    return [Pair(key, old.get(key), new.get(key)) for key in sorted({*old, *new}, key=lambda key: key.order)]


def nothing_common(old_label: str, old: Sides, new_label: str, new: Sides) -> str:
    """One sentence that says how two sides without a common key differ; "" for sides that have one."""
    if old.keys() & new.keys():
        return ""
    if empty := [label for label, sides in ((old_label, old), (new_label, new)) if not sides]:
        return f"nothing to compare: {' and '.join(empty)} {'has' if len(empty) == 1 else 'have'} no row of a provider"
    of_old, of_new = _values(old), _values(new)
    different = [
        f"{name} is {_first_values(of_old[name])} in {old_label} and {_first_values(of_new[name])} in {new_label}"
        for name in of_old
        if name in of_new and not of_old[name] & of_new[name]
    ]
    which = f": {'; '.join(different)}" if different else ""
    return f"nothing to compare: {old_label} and {new_label} have no row in common{which}"


def _values(sides: Sides) -> dict[str, set[Hashable]]:
    values: dict[str, set[Hashable]] = {}
    for key in sides:
        named = {"operator": key.operator, "provider": key.configuration_name, **dict(key.axes), "dtype": key.dtype}
        for name, value in named.items():
            values.setdefault(name, set()).add(value)
    return values


def _first_values(values: set[Hashable]) -> str:
    ordered = sorted(values, key=lambda value: (isinstance(value, str), value))
    return ", ".join(map(str, ordered[:3])) + (", ..." if len(values) > 3 else "")


def other_weights(old_label: str, old: Sides, new_label: str, new: Sides) -> str:
    """A note on weights that differ between two files; "" if none do."""
    other = sum(old[key].weight != new[key].weight for key in old.keys() & new.keys())
    message = f"the weights of {plural(other, 'row')} differ between {old_label} and {new_label}"
    used = f"the geometric mean uses the weights of {old_label}, or of {new_label} where {old_label} has none"
    return f"{message}; {used}" if other else ""
