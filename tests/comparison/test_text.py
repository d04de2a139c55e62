"""The terminal's report: complete at any width, a word for every verdict, what wants attention first."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from making import Write, row

from kbench.comparison import report
from kbench.comparison.compare import compare_results
from kbench.comparison.model import CompareOptions, Comparison
from kbench.comparison.verdict import Verdict
from kbench.errors import UsageError
from kbench.results.vocabulary import Flag, Role


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


def test_the_other_orders(every: Comparison) -> None:
    def order(sort: str) -> list[int]:
        return [int(n) for n in re.findall(r"^ *(\d+)  .*[!+=?x-] ", report.text(every, 200, sort), re.MULTILINE)]

    assert order("key") == [*range(1, 20), 40]
    assert order("change")[0] == 1 and order("change")[12] == 5  # 5 is the only faster one of those that have a change
    assert order("time")[:2] == [9, 1]
    with pytest.raises(UsageError, match='--sort: unknown order "size"; choose from verdict, key, change, time'):
        report.text(every, 80, "size")
    with pytest.raises(UsageError, match="--sort"):
        report.text(replace(every, nothing_common="nothing to compare"), 80, "size")


@pytest.mark.parametrize("cases", [4, 5])
def test_the_drift_of_a_share_of_the_copy_cancels_with_few_cases_and_with_many(write: Write, cases: int) -> None:
    rows = [row(n, copy_fraction=0.9) for n in range(cases)]
    path = write("a", [*rows, *(row(n, provider="copy", role=Role.CONTROL) for n in range(cases))])
    [line] = report.drifts(compare_results(path, path, options=CompareOptions(metric="copy_fraction")))
    assert f"{cases} cases" in line and line.endswith("which cancels in this metric")


def test_colour_is_for_the_verdict_and_changes_nothing_else(every: Comparison) -> None:
    gated = replace(every, options=CompareOptions(fail_on=("slower",)))
    for width in (40, 80, 120):
        plain, coloured = (report.text(gated, width, colour=colour) for colour in (False, True))
        assert re.sub(r"\x1b\[\d*m", "", coloured) == plain
    assert coloured.startswith("\x1b[31m! gate failed: 1 slower (--fail-on slower)\x1b[0m\n")
    assert (
        "\x1b[31m! slower\x1b[0m\n" in coloured and "\x1b[32m+ faster\x1b[0m" in coloured and "  = same\n" in coloured
    )


def test_an_unclear_row_of_a_script_is_measured_again_with_options_that_scripts_take(write: Write) -> None:
    for flags, option in (((), "with --append --sessions 2"), ((Flag.UNCHECKED,), "with --sessions 3")):
        old, new = (
            write(f"{side}-{len(flags)}", [row(ms=ms, flags=flags)]) for side, ms in (("old", 1.0), ("new", 1.01))
        )
        assert option in flat(report.text(compare_results(old, new), 200))
