"""The formats of a comparison: JSON with its schema, CSV, the comment on a pull request, and annotations for GitHub Actions."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import jsonschema

from kbench.comparison import github
from kbench.comparison.model import Comparison, schema
from kbench.comparison.verdict import Verdict

SCHEMA = Path(__file__).parents[2] / "docs" / "compare.schema.json"

# ---- JSON and CSV


def test_the_published_schema_is_that_of_the_code() -> None:
    assert json.loads(SCHEMA.read_text()) == schema(), "write it anew: kbench schema compare"
    jsonschema.Draft202012Validator.check_schema(schema())


# ---- the comment on a pull request: changes first, escaped, and never too long for GitHub


def test_changed_rows_come_first_then_the_unclear_and_the_rest_is_folded(every: Comparison) -> None:
    text = github.markdown(every)
    places = [
        text.index(f"| {verdict} |") for verdict in ("! slower", "x incomparable", "? unclear", "= same", "- untimed")
    ]
    summaries = ("<details open><summary>1 unclear", "<details><summary>10 same", "<details><summary>1 untimed")
    folds = [text.index(summary) for summary in summaries]
    assert sorted(places + folds) == [*places[:2], folds[0], places[2], folds[1], places[3], folds[2], places[4]]
    assert text.count("<details") == text.count("</details>") == 3


# ---- annotations that the runner can read, and not more than it shows

COMMAND = re.compile(r"::(error|warning|notice) title=([^:,\r\n]*)::([^\r\n]*)\n")
"""A workflow command as the documentation has it: properties hold neither colons nor commas, messages no line breaks."""


def annotations(comparison: Comparison, fail_on: set[str]) -> str:
    return github.commands(replace(comparison, options=replace(comparison.options, fail_on=tuple(fail_on))))


def commands(text: str) -> list[tuple[str, str, str]]:
    annotated = COMMAND.findall(text)
    assert "".join(f"::{level} title={title}::{message}\n" for level, title, message in annotated) == text
    assert not re.search(r"%(?!25|0A|0D|3A|2C)", text)
    return [(level, unquote(title), unquote(message)) for level, title, message in annotated]


def test_the_verdicts_that_fail_the_gate_are_errors_and_come_first(every: Comparison) -> None:
    annotated = commands(annotations(every, {"missing"}))
    assert annotated[0] == (
        "error",
        "kbench compare: missing",
        "softmax M=4096 N=3 float32 triton: missing: 31.43 -> none us",
    )
    levels = {title.removeprefix("kbench compare: "): level for level, title, _ in annotated}
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
