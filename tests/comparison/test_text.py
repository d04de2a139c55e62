"""The terminal's report: complete at any width, a word for every verdict, what wants attention first."""

from __future__ import annotations

import re

import pytest
from making import Write, failed, row, write_rows

from kbench.comparison import report
from kbench.comparison.compare import compare_results
from kbench.comparison.model import CompareOptions, Comparison
from kbench.comparison.verdict import Verdict
from kbench.results.row import Row
from kbench.results.vocabulary import Flag, Role


def measured(n: int, ms: tuple[float, ...], **fields: object) -> list[Row]:
    """A row in three sessions, with its rounds and speed."""
    return [
        row(n, t, session=s, gbps=100 / t, samples=200, round_ms=(t, 1.002 * t, 0.998 * t), **fields)
        for s, t in enumerate(ms)
    ]


STEADY, SLOW, FAST, WILD = (
    (0.0314, 0.0315, 0.0314),
    (0.0330, 0.0331, 0.0330),
    (0.03, 0.0301, 0.03),
    (0.03, 0.035, 0.031),
)
COPIES = [r for n in range(20, 30) for r in measured(n, STEADY, provider="copy", role=Role.CONTROL)]


@pytest.fixture(scope="session")
def every(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """A comparison with every verdict: row N=1 is slower, 2 failed, ... 10 to 19 are the same, 40 is untimed."""
    old = [*measured(1, STEADY), *measured(2, STEADY), *measured(3, STEADY), *measured(4, STEADY), *measured(5, STEADY)]
    new = [*measured(1, SLOW), *measured(4, (1e-5,) * 3, flags=("suspect",)), *measured(5, FAST)]
    old += [failed(6, session=s) for s in range(3)] + measured(8, STEADY) + measured(9, STEADY)
    new += [failed(2, session=s) for s in range(3)] + measured(6, STEADY) + measured(7, STEADY)
    new += measured(8, STEADY, cache="warm") + measured(9, WILD)
    same = [r for n in range(10, 20) for r in measured(n, STEADY)]
    same += [failed(40, status="unsupported", session=s) for s in range(3)]
    folder = tmp_path_factory.mktemp("every")
    old_csv = write_rows(folder / "old.csv", [*old, *same, *COPIES])
    new_csv = write_rows(folder / "new.csv", [*new, *same, *COPIES])
    return compare_results(f"main={old_csv}", f"pr 7={new_csv}", options=CompareOptions(vary=("torch",)))


def numbers(every: Comparison, word: str) -> list[str]:
    """Everything that the report has to say about a row, as it is written."""
    return {
        "slower": ["31.43", "33.03", "+5.1%"],
        "failed": ["triton, 1 of 20 cases (N=2)", "wrong: differs at 3 elements"],
        "fixed": ["was wrong"],
        "incomparable": ["cache cold -> warm", "makes 1 of 20 rows incomparable"],
        "unclear": ["too noisy: the margin needs"],
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
