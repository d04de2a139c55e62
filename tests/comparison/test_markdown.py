"""The comment on a pull request: what changed first, escaped, and never too long for GitHub."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

from kbench.comparison.github import markdown
from kbench.comparison.model import Comparison, EnvironmentDifference, Weight

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
    text = markdown(every)
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
    text = markdown(full)
    assert len(text.encode()) <= 60_000
    assert re.search(r"\*\*No room for \d+ more lines", text)
    for limit in (1_000, 2_000, 3_000, 5_000, 20_000):
        assert len(markdown(full, limit).encode()) <= limit


def test_nasty_text_is_text(nasty: tuple[str, Comparison]) -> None:
    text, comparison = nasty
    written = markdown(comparison)
    assert written.splitlines()[0] == "<!-- kbench:compare -->"
    tokens = parsed(written)
    blocks = {token.content.strip() for token in tokens if token.type == "html_block"}
    assert all(OURS.fullmatch(line) for block in blocks for line in block.splitlines())
    kinds = {token.type for token in inline(tokens)}
    assert kinds <= {"text", "text_special", "strong_open", "strong_close"}
    assert not re.search(r"[@#][\w-]", html.unescape(written).replace("### ", ""))
    if text and text.isprintable():
        assert text in [cell for row in cells(written) for cell in row]
