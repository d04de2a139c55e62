"""A comparison as JUnit XML, for the test tabs of GitLab, Jenkins and others: a suite per operator, a test per row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from kbench.comparison.model import Comparison, JudgedRow
from kbench.comparison.presentation import report_lines, row_names
from kbench.comparison.presentation.report_lines import WEIGHTS
from kbench.comparison.presentation.wording import plain, sentence


def text(comparison: Comparison) -> str:
    """Rows that need attention are failures, rows that were not judged are skipped, and the others pass."""
    root = Element("testsuites", _totals("kbench compare", comparison.rows))
    for operator, members in groupby(comparison.rows, lambda row: row.key.operator):  # rows are sorted by operator
        group = list(members)
        suite = SubElement(root, "testsuite", _totals(plain(operator), group))
        properties = SubElement(suite, "properties")
        for name, value in _properties(comparison):
            SubElement(properties, "property", {"name": plain(name), "value": plain(value)})
        for row in group:
            _add(suite, row, comparison)
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _totals(name: str, group: Sequence[JudgedRow]) -> dict[str, str]:
    failures = sum(row.verdict.needs_attention for row in group)
    skipped = sum(row.verdict.skipped for row in group)
    counts = {"tests": len(group), "failures": failures, "errors": 0, "skipped": skipped}
    return {"name": name} | {count: str(number) for count, number in counts.items()}


def _properties(comparison: Comparison) -> Iterator[tuple[str, str]]:
    yield "baseline", comparison.baseline
    yield "contenders", ", ".join(comparison.contenders)
    yield from report_lines.facts(comparison, {})
    for found in comparison.differences:
        yield f"{found.contender}: {found.name}", f"{found.old} -> {found.new} ({WEIGHTS[found.weight]})"


def _add(suite: Element, row: JudgedRow, comparison: Comparison) -> None:
    parts = row_names.distinguishing_parts(row, comparison, ("operator", "dtype"))
    names = {
        "classname": plain(f"{row.key.operator}.{row.key.dtype}"),
        "name": row_names.format_parts(parts) or row.key.operator,
    }
    case = SubElement(suite, "testcase", names)
    message = sentence(row, report_lines.quantity_of(comparison))
    if row.verdict.needs_attention:
        SubElement(case, "failure", {"type": row.verdict, "message": message})
    elif row.verdict.skipped:
        SubElement(case, "skipped", {"message": message})
    else:
        SubElement(case, "system-out").text = message
