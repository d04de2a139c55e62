"""The terminal's report: complete at any width, a word for every verdict, what wants attention first."""

from __future__ import annotations

import re

import pytest
from making import Write, row

from kbench.comparison import report
from kbench.comparison.compare import compare_results
from kbench.comparison.model import Comparison
from kbench.comparison.verdict import Verdict
from kbench.results.vocabulary import Flag


def numbers(every: Comparison, word: str) -> list[str]:
    """Everything that the report has to say about a row, as it is written."""
    return {
        "slower": ["31.43", "33.03", "+5.1%"],
        "failed": ["triton, 1 of 20 cases (N=2)", "wrong: differs at 3 elements"],
        "fixed": ["was wrong"],
        "incomparable": ["cache cold -> warm"],
        "unclear": ["too noisy: about"],
        "suspect": ["kbench explain suspect"],
    }.get(word, [])


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("width", [20, 80, 300])
def test_nothing_is_lost_at_any_width(every: Comparison, width: int) -> None:
    text = flat(report.text(every, width))
    for word in Verdict:
        assert len(re.findall(rf"[!+=?x-] {word}\b", text)) == every.counts[word]
        for number in numbers(every, word):
            assert number in text
    assert "\x1b" not in text and "..." not in text


def test_the_verdicts_come_in_the_order_in_which_they_want_attention(every: Comparison) -> None:
    verdicts = re.findall(r"^(?: *\d.* )?[!+=?x-] (\w+)", report.text(every, 200), re.MULTILINE)
    assert list(dict.fromkeys(verdicts)) == list(Verdict)


def test_an_unclear_row_of_a_script_is_measured_again_with_options_that_scripts_take(write: Write) -> None:
    for flags, option in (((), "with --append --sessions 2"), ((Flag.UNCHECKED,), "with --sessions 3")):
        old, new = (
            write(f"{side}-{len(flags)}", [row(ms=ms, flags=flags)]) for side, ms in (("old", 1.0), ("new", 1.01))
        )
        assert option in flat(report.text(compare_results(old, new), 200))
