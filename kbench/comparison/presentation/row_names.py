"""The names of a comparison's rows, and the order in which they are shown."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any

from kbench.comparison.model import Comparison, JudgedRow
from kbench.errors import UsageError
from kbench.results.case import DTYPE_ALIASES
from kbench.text.suggest import unknown

MOST_FOOTNOTES = 20
"""At most this many reasons become footnotes of a table."""

WHO = frozenset({"provider", "contender"})
"""Parts of a name that say who was measured. The other parts name the case."""

_SHORT = {dtype: alias for alias, dtype in DTYPE_ALIASES.items() if alias.startswith(("fp", "bf"))}

SELF_EXPLAINING = WHO | {"operator", "dtype"}
"""Parts of a name whose values are clear without `name=`."""


def name_parts(row: JudgedRow, comparison: Comparison) -> dict[str, str]:
    """The parts of a row's name by column, as text."""
    key = row.key
    axes = {name: str(value) for name, value in key.axes}
    parts = {"operator": key.operator, "dtype": key.dtype, **axes}
    parts["provider"] = key.configuration_name
    return parts


def common_parts(comparison: Comparison) -> dict[str, str]:
    """The parts that all rows have in common. The provider is not one of them if no other part would be left."""
    keys = [row.key for row in comparison.rows]
    seen: dict[str, set[Hashable]] = {"operator": {key.operator for key in keys}, "dtype": {key.dtype for key in keys}}
    for key in keys:
        for name, value in key.axes:
            seen.setdefault(name, set()).add(value)
    if any(len(values) > 1 for values in seen.values()):
        seen["provider"] = {key.configuration_name for key in keys}
    return {part: str(*values) for part, values in seen.items() if len(values) == 1}


def distinguishing_parts(row: JudgedRow, comparison: Comparison, common: Collection[str]) -> dict[str, str]:
    """The parts of a row's name that are not in `common`."""
    return {part: value for part, value in name_parts(row, comparison).items() if part not in common}


def with_short_dtype(parts: dict[str, str]) -> dict[str, str]:
    """The parts with the short name of the dtype: `bf16`."""
    return parts | {"dtype": _SHORT.get(parts["dtype"], parts["dtype"])} if "dtype" in parts else parts


def format_parts(parts: dict[str, str]) -> str:
    """`softmax float32 M=4096 N=256 triton`"""
    return " ".join(value if name in SELF_EXPLAINING else f"{name}={value}" for name, value in parts.items())


def shared_reasons(shown: Sequence[JudgedRow]) -> dict[str, int]:
    """The reasons that several rows share, each with the number of its footnote, in the order of rows. If there are too many,
    the most frequent ones."""
    counts = Counter(row.reason for row in shown if row.reason)
    often = {reason for reason, count in counts.most_common(MOST_FOOTNOTES) if count > 1}
    return {reason: place for place, reason in enumerate((each for each in counts if each in often), start=1)}


def key_columns(row: JudgedRow, comparison: Comparison) -> dict[str, Any]:
    """The columns by which the sides were joined, for programs: values keep their type."""
    key = row.key
    who = {"operator": key.operator, "provider": key.provider, "params": key.params}
    return {**who, **dict(key.axes), "dtype": key.dtype}


def full_name(row: JudgedRow, comparison: Comparison) -> str:
    """A name that no other row of the comparison has."""
    return row.key.label


def ordered(comparison: Comparison, sort: str = "verdict") -> list[JudgedRow]:
    """All rows, sorted by `verdict` (rows that need attention first), `key`, `change` (the worst first) or `time` (the longest
    first). Raises UsageError for another order.
    """
    better = comparison.rules.compared.sign
    orders: dict[str, Callable[[JudgedRow], float]] = {
        "verdict": lambda row: row.verdict.rank,
        "key": lambda row: 0,  # rows are sorted by key already
        "change": lambda row: math.inf if row.ratio is None else row.ratio * better,
        "time": lambda row: -_longest(row),
    }
    if sort not in orders:
        raise UsageError(f"--sort: {unknown('order', sort, list(orders))}")
    return sorted(comparison.rows, key=orders[sort])


def _longest(row: JudgedRow) -> float:
    sides = [side for side in (row.old, row.new) if side]
    return max((reading.ms for side in sides for reading in side.readings), default=0.0)
