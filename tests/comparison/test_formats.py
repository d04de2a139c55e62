"""The formats of a comparison: JSON with its schema, CSV, the comment on a pull request, and annotations for GitHub Actions."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import jsonschema
from making import Write, row
from markdown_it import MarkdownIt
from markdown_it.token import Token

from kbench.comparison import github, report
from kbench.comparison.compare import compare_results
from kbench.comparison.exports import csv_text
from kbench.comparison.model import Comparison, EnvironmentDifference, Weight, schema
from kbench.comparison.verdict import Verdict
from kbench.reporting.comparison_part import comparison_part

SCHEMA = Path(__file__).parents[2] / "docs" / "compare.schema.json"

# ---- JSON and CSV


def test_the_published_schema_is_that_of_the_code() -> None:
    assert json.loads(SCHEMA.read_text()) == schema(), "write it anew: kbench schema compare"
    jsonschema.Draft202012Validator.check_schema(schema())


def test_nasty_text_comes_back_from_json(nasty: tuple[str, Comparison]) -> None:
    text, comparison = nasty
    document = json.loads(comparison.json())
    jsonschema.Draft202012Validator(schema()).validate(document)
    first = document["rows"][0]
    if text.isprintable():
        assert first["reason"] == first["key"]["provider"] == document["new"] == text


def test_an_axis_called_as_a_column_keeps_its_values(write: Write) -> None:
    path = write("a", [row(111), row(222)])
    path.write_text(path.read_text().replace(",N,", ",q,", 1))
    comparison = compare_results(path, path)
    assert ",axis_q," in csv_text(comparison).splitlines()[0]
    assert all(size in report.text(comparison, 40) for size in ("111", "222"))
    table = comparison_part(comparison)["table"]
    assert table.heads[:2] == ["verdict", "q"] and table.columns[1] == ["111", "222"]


# ---- the comment on a pull request: changes first, escaped, and never too long for GitHub

OURS = re.compile(r"<!-- kbench:compare -->|</?details( open)?>(<summary>\d+ \w+</summary>)?")


def parsed(text: str) -> list[Token]:
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(text)


def inline(tokens: list[Token]) -> list[Token]:
    return [child for token in tokens for child in token.children or ()]


def cells(text: str) -> list[list[str]]:
    """The cells of all rows of all tables, as the reader sees them."""
    rows: list[list[str]] = []
    tokens = parsed(text)
    for token, after in pairwise(tokens):
        if token.type == "tr_open":
            rows.append([])
        if token.type in ("td_open", "th_open"):
            rows[-1].append("".join(child.content for child in after.children or ()).replace("\u200b", ""))
    return rows


def test_changed_rows_come_first_then_the_unclear_and_the_rest_is_folded(every: Comparison) -> None:
    text = github.markdown(every)
    places = [
        text.index(f"| {verdict} |") for verdict in ("! slower", "x incomparable", "? unclear", "= same", "- untimed")
    ]
    summaries = ("<details open><summary>1 unclear", "<details><summary>10 same", "<details><summary>1 untimed")
    folds = [text.index(summary) for summary in summaries]
    assert sorted(places + folds) == [*places[:2], folds[0], places[2], folds[1], places[3], folds[2], places[4]]
    assert text.count("<details") == text.count("</details>") == 3


def test_long_texts_and_many_notes_fit_too(every: Comparison) -> None:
    differences = [EnvironmentDifference(f"variables.{i}", "@" * 5_000, "内" * 5_000, Weight.WARN) for i in range(500)]
    full = replace(every, notes=tuple(f"note {i} {'<' * 5_000}" for i in range(500)), differences=tuple(differences))
    text = github.markdown(full)
    assert len(text.encode()) <= 60_000
    assert re.search(r"\*\*No room for \d+ more lines", text)
    for limit in (1_000, 2_000, 3_000, 5_000, 20_000):
        assert len(github.markdown(full, limit).encode()) <= limit


def test_nasty_text_is_text(nasty: tuple[str, Comparison]) -> None:
    text, comparison = nasty
    written = github.markdown(comparison)
    assert written.splitlines()[0] == "<!-- kbench:compare -->"
    tokens = parsed(written)
    blocks = {token.content.strip() for token in tokens if token.type == "html_block"}
    assert all(OURS.fullmatch(line) for block in blocks for line in block.splitlines())
    kinds = {token.type for token in inline(tokens)}
    assert kinds <= {"text", "text_special", "strong_open", "strong_close"}
    assert not re.search(r"[@#][\w-]", html.unescape(written).replace("### ", ""))
    if text and text.isprintable():
        assert text in [cell for row in cells(written) for cell in row]


# ---- annotations that the runner can read, and not more than it shows

COMMAND = re.compile(r"::(error|warning|notice) title=([^:,\r\n]*)::([^\r\n]*)\n")
"""A workflow command as the documentation has it: properties hold neither colons nor commas, messages no line breaks."""


def annotations(comparison: Comparison, fail_on: set[str]) -> str:
    return github.commands(replace(comparison, options=replace(comparison.options, fail_on=tuple(fail_on))))


def commands(text: str) -> list[tuple[str, str, str]]:
    found = COMMAND.findall(text)
    assert "".join(f"::{level} title={title}::{message}\n" for level, title, message in found) == text
    assert not re.search(r"%(?!25|0A|0D|3A|2C)", text)
    return [(level, unquote(title), unquote(message)) for level, title, message in found]


def test_the_verdicts_that_fail_the_gate_are_errors_and_come_first(every: Comparison) -> None:
    found = commands(annotations(every, {"missing"}))
    assert found[0] == (
        "error",
        "kbench compare: missing",
        "softmax M=4096 N=3 float32 triton: missing: 31.43 -> none us",
    )
    levels = {title.removeprefix("kbench compare: "): level for level, title, _ in found}
    assert levels == {
        "missing": "error", "slower": "warning", "failed": "warning", "suspect": "warning",
        "faster": "notice", "fixed": "notice", "new": "notice", "incomparable": "notice", "summary": "notice",
    }  # fmt: skip


def test_there_are_never_more_than_github_shows(big: Comparison) -> None:
    *rows, (level, _, message) = commands(annotations(big, {"slower"}))
    assert len(rows) == 9 and {row[0] for row in rows} == {"error"}
    changed = sum(big.counts[word] for word in Verdict if word not in ("unclear", "same", "untimed"))
    assert level == "notice" and message.endswith(f"; {changed - 9} more rows have no annotation")


def test_annotations_stand_at_the_providers_source(every: Comparison) -> None:
    def first(place: str) -> str:
        return github.commands(replace(every, places={"triton": place})).splitlines()[0]

    assert first("kernels/a,b:c.py:12").startswith(
        "::warning file=kernels/a%2Cb%3Ac.py,line=12,title=kbench compare%3A slower::"
    )
    for nowhere in ("", "mine.py", "mine.py:x", "/etc/passwd:1", "../mine.py:3", ":4"):
        assert first(nowhere).startswith("::warning title=kbench compare%3A slower::"), nowhere
    assert "\n" not in first("a\n::error::b.py:1")
