"""Rows that have no change to show, told together: `boom, all 12 cases: error: RuntimeError ...`.

Those of one provider whose verdicts are the same and whose reasons are too, but for numbers, are one group.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from kbench.comparison import Comparison
from kbench.comparison.presentation import rows
from kbench.comparison.presentation.words import plain
from kbench.comparison.verdict import WORDS, Verdict

_NUMBER = re.compile(r"[-+]?\d[\d.,e+-]*")


@dataclass(frozen=True)
class Group:
    """`count` rows of `of` that the comparison has of the same provider. `cases` says which they are, "" for all of them.
    `reason` is that of `first`; `alike` says that the others' differ in numbers."""

    first: Verdict
    word: str
    who: str
    count: int
    of: int
    cases: str
    reason: str
    alike: bool

    @property
    def extent(self) -> str:
        """`all 12 cases`, `2 of 12 cases (bf16 N=1024, 2048)`"""
        if self.count == self.of:
            return f"all {self.count} cases" if self.count > 1 else f"1 case{self._named}"
        return f"{self.count} of {self.of} cases{self._named}"

    @property
    def told(self) -> str:
        """`boom, all 12 cases: for example RuntimeError ...`"""
        return ": ".join(filter(None, [f"{self.who}, {self.extent}", self.why]))

    @property
    def why(self) -> str:
        return f"for example {self.reason}" if self.alike else self.reason

    @property
    def _named(self) -> str:
        return f" ({self.cases})" if self.cases else ""


def sections(shown: Iterable[Verdict]) -> Iterator[tuple[bool, list[Verdict]]]:
    """Rows in the order of WORDS, taken apart: those of one verdict that have a change (True), and what has none (False)."""

    def section(row: Verdict) -> tuple[bool, str]:
        changed = row.ratio is not None
        return changed, row.word if changed or row.word in rows.QUIET else ""

    in_order = sorted(shown, key=lambda row: (WORDS.index(row.word), row.ratio is None))
    for (changed, _), members in groupby(in_order, section):
        yield changed, list(members)


def grouped(shown: Iterable[Verdict], comparison: Comparison, common: Collection[str]) -> list[Group]:
    """The groups of rows in the order in which each first appears. `common` is what all rows share."""
    totals = Counter(_who(row, comparison) for row in comparison.rows)
    members: dict[tuple[str, str, str], list[Verdict]] = {}
    for row in shown:
        members.setdefault((row.word, _who(row, comparison), _NUMBER.sub("0", row.reason)), []).append(row)
    return [
        Group(
            first=group[0],
            word=word,
            who=who,
            count=len(group),
            of=totals[who],
            cases=_cases(group, comparison, common) if len(group) == 1 or len(group) < totals[who] else "",
            reason=plain(group[0].reason),
            alike=len({row.reason for row in group}) > 1,
        )
        for (word, who, _), group in members.items()
    ]


def _who(row: Verdict, comparison: Comparison) -> str:
    """`triton`, with several contenders `triton of head`."""
    if comparison.by == "provider":
        return plain(row.contender)
    several = len(comparison.contenders) > 1
    return f"{plain(row.key.curve)} of {plain(row.contender)}" if several else plain(row.key.curve)


def _cases(group: Sequence[Verdict], comparison: Comparison, common: Collection[str]) -> str:
    """`bf16/fp32 N=1024, 2048; fp32 N=4096`: products of values that are these cases and no others."""
    parts = [rows.brief(rows.distinct(row, comparison, {*common, *rows.WHO})) for row in group]
    products: list[dict[str, tuple[str, ...]]] = [{name: (value,) for name, value in part.items()} for part in parts]
    for name in reversed(parts[0]):
        merged: dict[tuple[tuple[str, ...], ...], dict[str, tuple[str, ...]]] = {}
        for product in products:
            others = tuple(values for other, values in product.items() if other != name)
            before = merged.setdefault(others, product | {name: ()})
            before[name] = tuple(dict.fromkeys((*before[name], *product[name])))
        products = list(merged.values())
    return "; ".join(" ".join(_values(name, values) for name, values in product.items()) for product in products)


def _values(name: str, values: Sequence[str]) -> str:
    return "/".join(values) if name in rows.SELF_EXPLAINING else f"{name}={', '.join(values)}"
