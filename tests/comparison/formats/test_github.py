"""What a job of GitHub Actions gets: annotations that the runner can read, and not more than it shows."""

from __future__ import annotations

import re
from dataclasses import replace
from urllib.parse import unquote

from kbench.comparison import Comparison
from kbench.comparison.formats import github
from kbench.comparison.verdict import WORDS

COMMAND = re.compile(r"::(error|warning|notice) title=([^:,\r\n]*)::([^\r\n]*)\n")
"""A workflow command as the documentation has it: properties hold neither colons nor commas, messages no line breaks."""


def commands(text: str) -> list[tuple[str, str, str]]:
    found = COMMAND.findall(text)
    assert "".join(f"::{level} title={title}::{message}\n" for level, title, message in found) == text
    assert not re.search(r"%(?!25|0A|0D|3A|2C)", text)
    return [(level, unquote(title), unquote(message)) for level, title, message in found]


def test_the_verdicts_that_fail_the_gate_are_errors_and_come_first(every: Comparison) -> None:
    found = commands(github.annotations(every, {"missing"}))
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


def test_unclear_and_same_rows_are_told_only_to_a_gate_that_asks(every: Comparison) -> None:
    assert "unclear:" not in github.annotations(every, {"slower"})
    assert commands(github.annotations(every, {"unclear"}))[0][1] == "kbench compare: unclear"


def test_there_are_never_more_than_github_shows(big: Comparison) -> None:
    *rows, (level, _, message) = commands(github.annotations(big, {"slower"}))
    assert len(rows) == 9 and {row[0] for row in rows} == {"error"}
    changed = sum(big.counts[word] for word in WORDS if word not in ("unclear", "same", "untimed"))
    assert level == "notice" and message.endswith(f"; and {changed - 9} more")


def test_a_message_keeps_its_percent_signs(every: Comparison) -> None:
    assert "time +5.1%25 [+" in github.annotations(every, ())


def test_nasty_text_cannot_forge_commands(nasty: tuple[str, Comparison]) -> None:
    text, comparison = nasty
    found = commands(github.annotations(comparison, ()))
    assert len(found) == 9
    if text.isprintable():
        assert text in found[0][2]


def test_outputs_are_simple_assignments(every: Comparison) -> None:
    lines = github.outputs(every, False).splitlines()
    counts = dict.fromkeys(WORDS, 1) | {"same": 10}
    assert lines[:2] == ["passed=false", "verdict=slower"]
    assert (
        "slower=1" in lines
        and "same=10" in lines
        and f"summary={', '.join(f'{counts[w]} {w}' for w in WORDS)}" in lines
    )
    nothing = dict(line.split("=", 1) for line in github.outputs(replace(every, rows=()), True).splitlines())
    assert nothing["passed"] == "true" and nothing["verdict"] == "none" and nothing["slower"] == "0"
    assert set(WORDS) < set(nothing)
