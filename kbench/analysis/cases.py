"""Rows by the case they belong to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kbench.results.case import Case
from kbench.results.cells import is_plausible
from kbench.results.row import Row
from kbench.results.vocabulary import Flag, Status


class CaseKey(NamedTuple):
    """A case as it was measured: times of another device, timer or cache mode belong to another case."""

    case: Case
    device: str
    timer: str
    cache: str


RowsByConfiguration = dict[str, list[Row]]
"""The rows of a case by configuration, a row for each session."""


def key_of(row: Row) -> CaseKey:
    return CaseKey(row.case, row.device, row.timer, row.cache)


def weight_of(rows: Iterable[Row]) -> float | None:
    """How often the case of some rows occurs; None if they do not tell, or tell nothing plausible."""
    return next((row.weight for row in rows if row.weight is not None and 0 < row.weight < math.inf), None)


def timed(row: Row) -> bool:
    """Whether a row has a plausible time."""
    return row.ms is not None and is_plausible(row.ms)


def values_of(rows: Iterable[Row], column: str) -> list[Any]:
    """The values of a column, without those that are not known."""
    return [value for row in rows if (value := getattr(row, column)) is not None]


def more_sessions(rows: Iterable[Row]) -> str:
    """The options that measure rows in more sessions. The results of a script cannot be continued."""
    return "--sessions 3" if any(Flag.UNCHECKED in row.flags for row in rows) else "--append --sessions 2"


def is_wrong(row: Row) -> bool:
    return row.of_provider and row.status in (Status.WRONG, Status.TAMPERED)


def wrong_cases(rows: Iterable[Row], name: str | None) -> set[CaseKey]:
    """The cases in which a configuration is wrong or tampered, in one session or more."""
    return {key_of(row) for row in rows if is_wrong(row) and row.configuration_name == name}


def distrusted(rows: Iterable[Row]) -> set[tuple[CaseKey, str]]:
    """The cases and the configurations that are suspect, wrong or tampered there, in one session or more."""
    return {(key_of(row), row.configuration_name) for row in rows if Flag.SUSPECT in row.flags or is_wrong(row)}


def by_case(rows: Sequence[Row]) -> dict[CaseKey, RowsByConfiguration]:
    """The timed rows of providers by case and configuration, in the order of the rows. A configuration that is suspect or wrong
    in a session of a case is left out of that case."""
    cases: dict[CaseKey, RowsByConfiguration] = {}
    for row in rows:
        if row.of_provider and timed(row):
            cases.setdefault(key_of(row), {}).setdefault(row.configuration_name, []).append(row)
    for key, configuration in distrusted(rows):
        cases.get(key, {}).pop(configuration, None)
    return {key: configurations for key, configurations in cases.items() if configurations}


def baseline_of(rows: Sequence[Row], stated: str | None) -> str | None:
    """The configuration that speed-ups are over: the stated one if it has rows, else the one whose speed-up is always 1."""
    providers = [row for row in rows if row.of_provider]
    if stated is not None and any(row.configuration_name == stated for row in providers):
        return stated
    speedups_by_configuration: dict[str, set[float]] = {}
    for row in providers:
        if row.speedup is not None:
            speedups_by_configuration.setdefault(row.configuration_name, set()).add(row.speedup)
    return next((name for name, speedups in speedups_by_configuration.items() if speedups == {1.0}), None)
