"""The rows of a frame that `table.read` returned, as `Row`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kbench.analysis import rounds
from kbench.results.case import Case
from kbench.results.columns import NUMERIC_COLUMNS, Kind, axis_columns, columns_of
from kbench.results.row import Row
from kbench.results.vocabulary import Status

if TYPE_CHECKING:
    import pandas as pd


WORDS = tuple(name for name in columns_of(Kind.WORD) if name != "params")


def rows_of(frame: pd.DataFrame) -> list[Row]:
    """The rows of a frame that `table.read` returned. A row that is `ok` but has no time becomes an error: no run
    writes such a row."""
    names = axis_columns(list(frame.columns))
    return [_row({str(name): cell for name, cell in cells.items()}, names) for cells in frame.to_dict("records")]


def _row(cells: dict[str, Any], names: Sequence[str]) -> Row:
    case = Case(cells["operator"], {name: cells[name] for name in names}, cells["dtype"])
    status, reason = Status(cells["status"]), cells["reason"]
    known: dict[str, Any] = {name: cells[name] if math.isfinite(cells[name]) else None for name in NUMERIC_COLUMNS}
    if status is Status.OK and not (known["ms"] and known["ms"] > 0):
        status, reason = Status.ERROR, f"ok, but its time is {cells['ms']}"
    if status is not Status.OK:
        known["ms"] = None
    return Row(
        case,
        cells["provider"],
        cells["params"],
        cells["role"],
        cells["session"],
        status,
        reason or ("" if status in (Status.OK, Status.CHECKED) else "the file gives no reason"),
        tuple(flag for flag in cells["flags"].split(";") if flag),
        round_ms=rounds.read(cells["round_ms"]) if status is Status.OK else (),
        deterministic={"True": True, "False": False}.get(cells["deterministic"]),
        **({name: cells[name] for name in WORDS} | known),
    )
