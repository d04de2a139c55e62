"""The terminal's report: complete at any width, a word for every verdict, what wants attention first."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from making import Write, failed, row
from rich.cells import cell_len

from kbench.comparison import report
from kbench.comparison.compare import compare_results
from kbench.comparison.model import CompareOptions, Comparison
from kbench.comparison.verdict import Verdict
from kbench.errors import UsageError
from kbench.results.row import Row
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
    found = re.findall(r"^(?: *\d.* )?[!+=?x-] (\w+)", report.text(every, 200), re.MULTILINE)
    assert list(dict.fromkeys(found)) == list(Verdict)


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


def test_after_a_drift_only_sessions_in_turn_are_proposed(write: Write) -> None:
    def rows(ms: float) -> list[Row]:
        places = [(n, session) for n in range(1, 7) for session in range(3)]
        copies = [row(n, ms, provider="copy", role=Role.CONTROL, session=session) for n, session in places]
        return [*copies, *(row(n, ms, session=session) for n, session in places)]

    text = flat(report.text(compare_results(write("old", rows(1.0)), write("new", rows(1.04)))))
    assert "the machine drifted by +4.0%, which may explain changes from -5.7% to +6.1%" in text
    assert "kbench ab" in text and "--append" not in text


def test_colour_is_for_the_verdict_and_changes_nothing_else(every: Comparison) -> None:
    gated = replace(every, options=CompareOptions(fail_on=("slower",)))
    for width in (40, 80, 120):
        plain, coloured = (report.text(gated, width, colour=colour) for colour in (False, True))
        assert re.sub(r"\x1b\[\d*m", "", coloured) == plain
    assert coloured.startswith("\x1b[31m! gate failed: 1 slower (--fail-on slower)\x1b[0m\n")
    assert (
        "\x1b[31m! slower\x1b[0m\n" in coloured and "\x1b[32m+ faster\x1b[0m" in coloured and "  = same\n" in coloured
    )


def test_wide_signs_do_not_break_the_columns(write: Write) -> None:
    rows = [row(provider=name) for name in ("plain", "内核内核内核")]
    lines = report.text(compare_results(write("a", rows), write("b", rows)), 200).splitlines()
    found = [line for line in lines if "unclear" in line and "1000" in line]
    assert len({cell_len(line.partition("1000")[0]) for line in found}) == 1 and len(found) == 2


def test_a_reason_is_a_footnote_and_the_first_parts_of_names_stand_above_where_a_line_is_too_narrow(
    write: Write,
) -> None:
    rows = [row(n, dtype=dtype, provider=f"torch-inductor-x{i}") for n in (1024, 65536) for dtype in
            ("float32", "bfloat16") for i in "ab"]  # fmt: skip
    comparison = compare_results(write("c", rows), write("d", [replace(r, ms=1.05) for r in rows]))
    assert report.text(comparison, 200).count("! slower  1 session") == 8
    text = report.text(comparison, 72)
    assert text.count("\n(1) 1 session") == 1
    table = text[text.index("  provider  ") : text.index("\n(1) ")].splitlines()
    assert [line for line in table if "1000" not in line][1:] == [
        "bf16 N=1024",
        "bf16 N=65536",
        "fp32 N=1024",
        "fp32 N=65536",
    ]
    assert len([line for line in table if re.search(r"^  torch-inductor-x[ab] +1000 ", line)]) == 8


def test_failures_are_told_by_provider_and_cause(write: Write) -> None:
    cases = [(n, dtype) for n in (1024, 2048, 4096) for dtype in ("float32", "bfloat16")]
    old = [row(n, provider=name, dtype=dtype) for n, dtype in cases for name in ("boom", "liar")]
    broken = [replace(failed(n, "error", "boom", dtype=dtype), reason=f"N={n} is too much") for n, dtype in cases]
    new = [*broken, *(failed(n, provider="liar", dtype=dtype) for n, dtype in cases[:2]), row(4096, provider="liar")]
    text = report.text(compare_results(write("a", old), write("b", new)), 120)
    assert "! failed  boom, all 6 cases: for example error: N=1024 is too much\n" in text
    assert "! failed  liar, 2 of 6 cases (bf16 N=1024, fp32 N=1024): wrong: differs" in text


def test_an_unclear_row_of_a_script_is_measured_again_with_options_that_scripts_take(write: Write) -> None:
    for flags, option in (((), "with --append --sessions 2"), ((Flag.UNCHECKED,), "with --sessions 3")):
        old, new = (
            write(f"{side}-{len(flags)}", [row(ms=ms, flags=flags)]) for side, ms in (("old", 1.0), ("new", 1.01))
        )
        assert option in flat(report.text(compare_results(old, new), 200))
