"""The rows of a frame that `table.read_results` returned, as `Row`. It is the only code that makes rows of a frame."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from kbench.analysis import rounds
from kbench.results.case import Case
from kbench.results.row import NUMERIC_COLUMNS, Row, axis_columns
from kbench.results.vocabulary import Status

if TYPE_CHECKING:
    import pandas as pd

_FIELDS = tuple(field.name for field in dataclasses.fields(Row))
_BOOLEANS = {"True": True, "False": False}


def rows_of(frame: pd.DataFrame) -> list[Row]:
    """The rows of a frame that `table.read_results` returned, in its order. A row that is `ok` but has no plausible
    time becomes an error: no run writes such a row."""
    # Whole columns become lists first. Access to single cells of a frame is many times slower.
    cells: dict[str, list[Any]] = {str(name): column.to_numpy(dtype=object).tolist() for name, column in frame.items()}
    outcomes = list(map(_outcome, cells["status"], cells["reason"], cells["ms"]))
    timed = [status is Status.OK for status, _ in outcomes]
    values = cells | {name: [_finite(cell) for cell in cells[name]] for name in NUMERIC_COLUMNS}
    values["case"] = _cases(cells)
    values["status"] = [status for status, _ in outcomes]
    values["reason"] = [reason for _, reason in outcomes]
    values["flags"] = [tuple(flag for flag in cell.split(";") if flag) if cell else () for cell in cells["flags"]]
    values["deterministic"] = [_BOOLEANS.get(cell) for cell in cells["deterministic"]]
    values["ms"] = [ms if ok else None for ms, ok in zip(values["ms"], timed, strict=True)]
    values["round_ms"] = [
        rounds.parse_rounds(cell) if ok else () for cell, ok in zip(cells["round_ms"], timed, strict=True)
    ]
    values["not_tried"] = [False] * len(timed)
    return list(map(Row, *(values[name] for name in _FIELDS)))


def _cases(cells: dict[str, list[Any]]) -> list[Case]:
    names = axis_columns(list(cells))
    axes = zip(*(cells[name] for name in names), strict=True) if names else [()] * len(cells["operator"])
    return [
        Case(operator, dict(zip(names, sizes, strict=True)), dtype)
        for operator, sizes, dtype in zip(cells["operator"], axes, cells["dtype"], strict=True)
    ]


def _outcome(word: str, reason: str, ms: float) -> tuple[Status, str]:
    status = Status(word)
    if status is Status.OK and not rounds.is_plausible(ms):
        return not_a_time(ms)
    if reason or status in (Status.OK, Status.CHECKED):
        return status, reason
    return status, "the file gives no reason"


def not_a_time(ms: float) -> tuple[Status, str]:
    """The status and reason of a row that is `ok`, but whose time cannot be right. Such a file was damaged."""
    return Status.ERROR, f"the status is ok, but the time is {ms}"


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
