"""Comparisons as text and as Markdown: nothing cropped, a word for every verdict, the summary last."""

from __future__ import annotations

import re

import pytest

from kbench.comparison import render
from kbench.comparison.join import Key
from kbench.comparison.verdict import WORDS, Comparison, Verdict


def key(n: int = 256, provider: str = "triton", params: str = "", m: int = 4096) -> Key:
    return Key("softmax", provider, params, (("M", m), ("N", n)), "float32")


def comparison(*rows: Verdict, notes: tuple[str, ...] = ()) -> Comparison:
    return Comparison("old.csv", "new.csv", rows, notes)


SLOWER = Verdict(key(512), "slower", "1 session", 0.03142, 0.0331, 0.0331 / 0.03142)
SAME = Verdict(key(256), "same", "", 1.0, 1.0, 1.0)
FAILED = Verdict(key(1024), "failed", "wrong: 17 of 4194304 elements differ, the worst at [3, 511]", 0.5)
MISSING = Verdict(key(2048, "liger"), "missing", "", 0.25)


def test_text_reads_as_a_table_with_what_is_shared_above_and_what_changed_first() -> None:
    assert render.text(comparison(SAME, SLOWER, FAILED, MISSING)) == (
        "old: old.csv\n"
        "new: new.csv\n"
        "softmax float32 M=4096\n"
        "\n"
        "N     provider   old ms  new ms  change  verdict\n"
        "512   triton    0.03142  0.0331   +5.3%  slower: 1 session\n"
        "1024  triton        0.5                  failed\n"
        "    wrong: 17 of 4194304 elements differ, the worst at [3, 511]\n"
        "2048  liger        0.25                  missing\n"
        "256   triton          1       1   +0.0%  same\n"
        "\n"
        "geomean of new/old time: 1.0264 over 2 of 4 rows\n"
        "1 slower, 1 failed, 1 missing, 1 same\n"
    )


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_nothing_is_cropped_at_any_width(width: int) -> None:
    params = "num_warps=16,num_stages=4,maxnreg=128"
    rows = [Verdict(key(2**n, "triton-row", params, m=n), "slower", "few sessions", 1.5, 12.25, 8.1667) for n in (1, 2)]
    text = render.text(comparison(*rows, FAILED, notes=("a note that is rather long, " * 5,)), width)
    assert text.count(f"triton-row[{params}]") == 2
    assert text.count("+716.7%") == 2 and len(re.findall(r"\bslower\b", text)) == 3
    assert "elements" in text and text.count("rather") == 5
    assert max(len(line) for line in text.splitlines()) <= max(width, 51)  # a name alone on its line is longer than 40


@pytest.mark.parametrize("word", WORDS)
def test_every_verdict_is_a_word_in_both_formats(word: str) -> None:
    only = comparison(Verdict(key(), word, "because"))
    for rendered in (render.text(only, 20), render.text(only), render.markdown(only)):
        *lines, last = rendered.splitlines()
        assert last == f"1 {word}"
        assert [line for line in lines if re.search(rf"(ms|\||triton) +{word}\b", line)]


def test_the_summary_line_is_the_last_and_one_line_whatever_the_width() -> None:
    rows = [Verdict(key(n), word) for n, word in enumerate(WORDS)]
    assert render.text(comparison(*rows), 30).splitlines()[-1] == ", ".join(f"1 {word}" for word in WORDS)


def test_an_empty_comparison() -> None:
    empty = comparison(notes=("no rows in common",))
    assert render.text(empty).splitlines()[-1] == "no rows"
    assert "note: no rows in common" in render.text(empty)
    assert "no rows in common" in render.markdown(empty)


def test_plain_text_is_ascii() -> None:
    assert render.text(comparison(SAME, SLOWER, FAILED, MISSING)).isascii()


def test_markdown_is_a_github_table_that_no_cell_breaks() -> None:
    nasty = Verdict(key(1, "a|b"), "failed", "error: <img src=x>\n| `x` | *y*\r\nend", 1.0)
    lines = render.markdown(comparison(SAME, nasty)).splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 4
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table}) == 1
    assert "<img" not in "".join(table)
    assert r"a\|b" in table[2] and "same" in table[3]
