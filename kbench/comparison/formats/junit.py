"""A comparison as JUnit XML, for the test tabs of GitLab, Jenkins and others: a suite per operator, a test per row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from kbench.comparison import Comparison
from kbench.comparison.presentation import header, rows
from kbench.comparison.presentation.header import WEIGHTS
from kbench.comparison.presentation.words import plain, sentence
from kbench.comparison.verdict import Verdict

FAILURES = frozenset({"slower", "failed", "missing", "suspect"})
SKIPPED = frozenset({"incomparable", "unclear", "untimed"})


def text(comparison: Comparison) -> str:
    """What wants attention is a failure, what cannot be told is skipped, and all else passes."""
    root = Element("testsuites", _totals("kbench compare", comparison.rows))
    for operator, members in groupby(comparison.rows, lambda row: row.key.operator):  # rows are sorted by it
        group = list(members)
        suite = SubElement(root, "testsuite", _totals(plain(operator), group))
        properties = SubElement(suite, "properties")
        for name, value in _properties(comparison):
            SubElement(properties, "property", {"name": plain(name), "value": plain(value)})
        for row in group:
            _add(suite, row, comparison)
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _totals(name: str, group: Sequence[Verdict]) -> dict[str, str]:
    failures = sum(row.word in FAILURES for row in group)
    skipped = sum(row.word in SKIPPED for row in group)
    counts = {"tests": len(group), "failures": failures, "errors": 0, "skipped": skipped}
    return {"name": name} | {count: str(number) for count, number in counts.items()}


def _properties(comparison: Comparison) -> Iterator[tuple[str, str]]:
    yield "baseline", comparison.baseline
    yield "contenders", ", ".join(comparison.contenders)
    yield from header.facts(comparison, {})
    for found in comparison.differences:
        yield f"{found.contender}: {found.name}", f"{found.old} -> {found.new} ({WEIGHTS[found.weight]})"


def _add(suite: Element, row: Verdict, comparison: Comparison) -> None:
    parts = rows.distinct(row, comparison, ("operator", "dtype"))
    names = {"classname": plain(f"{row.key.operator}.{row.key.dtype}"), "name": rows.said(parts) or row.key.operator}
    case = SubElement(suite, "testcase", names)
    told = sentence(row, header.quantity_of(comparison))
    if row.word in FAILURES:
        SubElement(case, "failure", {"type": row.word, "message": told})
    elif row.word in SKIPPED:
        SubElement(case, "skipped", {"message": told})
    else:
        SubElement(case, "system-out").text = told
