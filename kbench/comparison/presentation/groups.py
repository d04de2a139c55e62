"""Groups of rows without a change, one sentence each: `boom, all 12 cases: error: RuntimeError ...`.

Rows of one provider form a group if they have the same verdict, and reasons that differ at most in numbers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from kbench.comparison.model import Comparison, JudgedRow
from kbench.comparison.presentation import row_names
from kbench.comparison.verdict import Verdict

_NUMBER = re.compile(r"[-+]?\d[\d.,e+-]*")


@dataclass(frozen=True)
class Group:
    """Rows of one provider with the same verdict and reason.

    first   the first row of the group
    who     the provider
    count   how many rows there are in the group, of the `total` that the comparison has of the provider
    cases   which cases they are; "" for all cases of the provider
    reason  the reason of the first row. `varied` says whether the numbers in the other reasons differ.
    """

    first: JudgedRow
    verdict: Verdict
    who: str
    count: int
    total: int
    cases: str
    reason: str
    varied: bool

    @property
    def extent(self) -> str:
        """`all 12 cases`, `2 of 12 cases (bf16 N=1024, 2048)`"""
        if self.count == self.total:
            return f"all {self.count} cases" if self.count > 1 else f"1 case{self._named}"
        return f"{self.count} of {self.total} cases{self._named}"

    @property
    def text(self) -> str:
        """`boom, all 12 cases: for example RuntimeError ...`"""
        return ": ".join(filter(None, [f"{self.who}, {self.extent}", self.why]))

    @property
    def why(self) -> str:
        return f"for example {self.reason}" if self.varied else self.reason

    @property
    def _named(self) -> str:
        return f" ({self.cases})" if self.cases else ""


def sections(shown: Iterable[JudgedRow]) -> Iterator[tuple[bool, list[JudgedRow]]]:
    """Rows in the order of their verdicts, in sections: the rows of a verdict that have a change (True), and rows without a
    change (False), which several verdicts may share."""

    def section(row: JudgedRow) -> tuple[bool, str]:
        changed = row.ratio is not None
        return changed, row.verdict if changed or row.verdict.quiet else ""

    in_order = sorted(shown, key=lambda row: (row.verdict.rank, row.ratio is None))
    for (changed, _), members in groupby(in_order, section):
        yield changed, list(members)


def grouped(shown: Iterable[JudgedRow], comparison: Comparison, common: Collection[str]) -> list[Group]:
    """The groups of rows, in the order of their first rows. `common` holds the parts of names that all rows share."""
    totals = Counter(_who(row, comparison) for row in comparison.rows)
    members: dict[tuple[Verdict, str, str], list[JudgedRow]] = {}
    for row in shown:
        members.setdefault((row.verdict, _who(row, comparison), _NUMBER.sub("0", row.reason)), []).append(row)
    return [
        Group(
            first=group[0],
            verdict=verdict,
            who=who,
            count=len(group),
            total=totals[who],
            cases=_cases(group, comparison, common) if len(group) == 1 or len(group) < totals[who] else "",
            reason=group[0].reason,
            varied=len({row.reason for row in group}) > 1,
        )
        for (verdict, who, _), group in members.items()
    ]


def _who(row: JudgedRow, comparison: Comparison) -> str:
    return row.key.configuration_name


def _cases(group: Sequence[JudgedRow], comparison: Comparison, common: Collection[str]) -> str:
    """`bf16/fp32 N=1024, 2048; fp32 N=4096`: products of values that cover exactly these cases."""
    parts = [
        row_names.with_short_dtype(row_names.distinguishing_parts(row, comparison, {*common, *row_names.WHO}))
        for row in group
    ]
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
    return "/".join(values) if name in row_names.SELF_EXPLAINING else f"{name}={', '.join(values)}"
