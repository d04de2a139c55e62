"""The rows of a comparison: what each is called, and in which order they are shown."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any

from kbench.comparison import Comparison
from kbench.comparison.join import METRICS
from kbench.comparison.presentation.words import plain
from kbench.comparison.verdict import WORDS, Verdict
from kbench.errors import UsageError
from kbench.results.row import DTYPE_ALIASES
from kbench.text.suggest import unknown

QUIET = frozenset({"unclear", "same", "untimed"})
"""Verdicts that say nothing happened, or nothing that can be told."""

MOST_FOOTNOTES = 20

WHO = frozenset({"provider", "contender"})
"""Parts of a name that say who was measured, the others being the case."""

_SHORT = {dtype: alias for alias, dtype in DTYPE_ALIASES.items() if alias.startswith(("fp", "bf"))}

SELF_EXPLAINING = WHO | {"operator", "dtype"}
"""Parts of a name whose values need no `name=` before them."""


def identity(row: Verdict, comparison: Comparison) -> dict[str, str]:
    """What a row is of, by column, as text. The contender is a part of it where there are several."""
    key = row.key
    axes = {name: plain(str(value)) for name, value in key.axes}
    parts = {"operator": plain(key.operator), "dtype": plain(key.dtype), **axes}
    if comparison.by == "file":
        parts["provider"] = plain(key.curve)
    if len(comparison.contenders) > 1:
        parts["provider" if comparison.by == "provider" else "contender"] = plain(row.contender)
    return parts


def shared(comparison: Comparison) -> dict[str, str]:
    """What all rows have in common. The provider stands beside its numbers nevertheless where nothing else would."""
    keys = [row.key for row in comparison.rows]
    seen: dict[str, set[Hashable]] = {"operator": {key.operator for key in keys}, "dtype": {key.dtype for key in keys}}
    for key in keys:
        for name, value in key.axes:
            seen.setdefault(name, set()).add(value)
    if comparison.by == "file" and any(len(values) > 1 for values in seen.values()):
        seen["provider"] = {key.curve for key in keys}
    return {part: plain(str(*values)) for part, values in seen.items() if len(values) == 1}


def distinct(row: Verdict, comparison: Comparison, common: Collection[str]) -> dict[str, str]:
    """The parts of a row's name that are not `common` to all."""
    return {part: value for part, value in identity(row, comparison).items() if part not in common}


def brief(parts: dict[str, str]) -> dict[str, str]:
    """The same with the dtype as short as people write it: `bf16`."""
    return parts | {"dtype": _SHORT.get(parts["dtype"], parts["dtype"])} if "dtype" in parts else parts


def said(parts: dict[str, str]) -> str:
    """`softmax float32 M=4096 N=256 triton`"""
    return " ".join(value if name in SELF_EXPLAINING else f"{name}={value}" for name, value in parts.items())


def repeated(shown: Sequence[Verdict]) -> dict[str, int]:
    """The reasons that several rows have, each with its number as a footnote: those of most rows, in the order of rows."""
    counts = Counter(row.reason for row in shown if row.reason)
    often = {reason for reason, count in counts.most_common(MOST_FOOTNOTES) if count > 1}
    return {reason: place for place, reason in enumerate((each for each in counts if each in often), start=1)}


def key_columns(row: Verdict, comparison: Comparison) -> dict[str, Any]:
    """The columns by which the sides were joined, for programs."""
    key = row.key
    who = {"provider": plain(key.provider), "params": plain(key.params)} if comparison.by == "file" else {}
    axes = {name: plain(value) if isinstance(value, str) else value for name, value in key.axes}
    return {"operator": plain(key.operator), **who, **axes, "dtype": plain(key.dtype)}


def full_name(row: Verdict, comparison: Comparison) -> str:
    """A name that no other row of the comparison has: of a provider, in one file or several."""
    name = plain(row.key.label)
    if comparison.by == "provider":
        return f"{name} {plain(row.contender)}"
    return f"{name} ({plain(row.contender)})" if len(comparison.contenders) > 1 else name


def ordered(comparison: Comparison, sort: str = "verdict") -> list[Verdict]:
    """All rows: those that want attention first (`verdict`), by `key`, the worst `change` first, or the longest `time`.

    Raises UsageError for another word.
    """
    better = METRICS[comparison.rules.metric]
    orders: dict[str, Callable[[Verdict], float]] = {
        "verdict": lambda row: WORDS.index(row.word),
        "key": lambda row: 0,  # as they are
        "change": lambda row: math.inf if row.ratio is None else row.ratio * better,
        "time": lambda row: -_longest(row),
    }
    if sort not in orders:
        raise UsageError(f"--sort: {unknown('order', sort, list(orders))}")
    return sorted(comparison.rows, key=orders[sort])


def _longest(row: Verdict) -> float:
    sides = [side for side in (row.old, row.new) if side]
    return max((reading.ms for side in sides for reading in side.readings), default=0.0)
