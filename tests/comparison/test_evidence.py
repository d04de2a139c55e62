"""What a comparison believes: the floor of one session, and the scatter of several."""

from __future__ import annotations

import math
import random

import pytest
from making import Write, row, sessions
from verdicts import Judge, words

from kbench.comparison.compare import compare_results
from kbench.results.row import Row
from kbench.results.vocabulary import Role

# ---- one session on a side: the floor


@pytest.mark.parametrize(
    ("ms", "word"),
    [
        (1.03, "slower"),
        (1.029, "unclear"),
        (1 / 1.03, "faster"),
        (1 / 1.029, "unclear"),
        (40.0, "slower"),
        (1.0, "unclear"),
    ],
)
def test_with_one_session_only_a_change_of_three_percent_is_believed(verdict: Judge, ms: float, word: str) -> None:
    found, reason = verdict([row()], [row(ms=ms)])
    assert found == word and reason.startswith("1 session: only changes above 3.0% count")


def test_rounds_that_scatter_raise_the_floor(verdict: Judge) -> None:
    calm, wild = (1.0, 1.001, 0.999, 1.0, 1.0), (1.0, 1.3, 0.8, 1.1, 0.9)
    assert verdict([row(round_ms=calm)], [row(ms=1.08, round_ms=calm)])[0] == "slower"
    word, reason = verdict([row(round_ms=calm)], [row(ms=1.08, round_ms=wild)])
    assert word == "unclear" and float(reason.split("above ")[1].split("%")[0]) > 8


def test_a_case_whose_copy_moved_raises_its_own_floor(write: Write) -> None:
    """Bytes that fill the cache just so are copied at two speeds, and by a kernel too: no other case knows."""

    def rows(ms: float, copy: float) -> list[Row]:
        copies = [row(n, copy if n == 1 else 1.0, "copy", role=Role.CONTROL) for n in range(1, 10)]
        return [*(row(n, ms) for n in (1, 2)), *copies]

    comparison = compare_results(write("old", rows(1.0, 1.0)), write("new", rows(1.06, 1.04)))
    assert words(comparison) == ["unclear", "slower"] and "above 8.2%" in comparison.rows[0].reason


# ---- several sessions on both sides


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ((1.0, 1.001, 1.002), (1.041, 1.04, 1.042), "slower"),
        ((1.041, 1.04, 1.042), (1.0, 1.001, 1.002), "faster"),
        ((1.0, 1.002, 1.001), (1.003, 1.004, 1.005), "same"),  # perhaps slower, and certainly by less than 2 %
        ((1.0, 1.0, 1.0), (1.0, 1.0, 1.0), "same"),
        ((1.0, 1.06, 0.99), (1.05, 1.02, 1.07), "unclear"),
        ((1.0, 1.2, 0.9), (1.1, 1.0, 1.3), "unclear"),
    ],
)
def test_the_scatter_of_sessions_decides(
    verdict: Judge, old: tuple[float, ...], new: tuple[float, ...], expected: str
) -> None:
    assert verdict(sessions(*old), sessions(*new))[0] == expected


def test_rows_lend_each_other_their_variance(write: Write) -> None:
    """Of 40 rows that scatter by 0.4 %, one is 2.2 % slower: alone it could not be told, among the others it can."""
    rng = random.Random(4)
    old = [row(n, math.exp(rng.gauss(0, 0.004)), session=s) for n in range(40) for s in range(3)]
    new = [
        row(n, math.exp(rng.gauss(0, 0.004)) * (1.022 if n == 7 else 1), session=s) for n in range(40) for s in range(3)
    ]
    found = words(compare_results(write("old", old), write("new", new)))
    assert found[7] == "slower" and set(found[:7] + found[8:]) == {"same"}
    alone = compare_results(
        write("old", [r for r in old if r.case.N == 7]), write("new", [r for r in new if r.case.N == 7])
    )
    assert words(alone) == ["unclear"]


@pytest.mark.parametrize(("timer", "word"), [("do_bench", "unclear"), ("graph", "slower")])
def test_two_ticks_of_the_event_clock_are_no_change(verdict: Judge, timer: str, word: str) -> None:
    old = [row(ms=0.00128, session=s, timer=timer) for s in range(3)]
    new = [row(ms=0.00133, session=s, timer=timer) for s in range(3)]  # 3.9 %, and less than two ticks of 32 ns
    assert verdict(old, new)[0] == word


def test_the_ratio_is_that_of_the_sessions_geometric_means(write: Write) -> None:
    [only] = compare_results(write("old", sessions(1.0, 2.0, 4.0)), write("new", sessions(3.0, 3.0, 3.0))).rows
    assert only.old and only.new
    assert (only.old.value, only.new.value, only.ratio) == pytest.approx((2.0, 3.0, 1.5))
    assert only.ci and only.ci[0] < 1.5 < only.ci[1] and only.q is not None


@pytest.mark.parametrize("count", [1, 2, 3])
def test_swapping_the_files_swaps_the_words(write: Write, count: int) -> None:
    rng = random.Random(1)

    def rows() -> list[Row]:
        level = {n: rng.uniform(0.9, 1.1) for n in range(1, 100)}
        return [
            row(n, level[n] * (1 + rng.uniform(-1, 1) * (0.003 if n % 2 else 0.03)), session=s)
            for n in range(1, 100)
            for s in range(count)
        ]

    a, b = write("a", rows()), write("b", rows())
    swap = {"slower": "faster", "faster": "slower", "unclear": "unclear", "same": "same"}
    there, back = compare_results(a, b), compare_results(b, a)
    assert {"slower", "faster", "unclear"} <= set(words(there))
    assert [swap[word] for word in words(there)] == words(back)
    for one, other in zip(there.rows, back.rows, strict=True):
        assert one.ratio and other.ratio and one.ratio * other.ratio == pytest.approx(1)
