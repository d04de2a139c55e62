"""The verdicts on rows: the floor of one session, the scatter of several, the drift of the machine, and rows without a time."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from making import Write, failed, row, sessions

from kbench.comparison.compare import compare_results
from kbench.comparison.model import CompareOptions, Comparison
from kbench.results.row import Row
from kbench.results.vocabulary import Role

Judge = Callable[[Iterable[Row], Iterable[Row]], tuple[str, str]]


@pytest.fixture
def verdict(write: Write) -> Judge:
    """The word and reason of two files that hold one key."""

    def verdict(old: Iterable[Row], new: Iterable[Row]) -> tuple[str, str]:
        [only] = compare_results(write("old", old), write("new", new)).rows
        return only.verdict, only.reason

    return verdict


def words(comparison: Comparison) -> list[str]:
    return [row.verdict for row in comparison.rows]


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
    decided, reason = verdict([row()], [row(ms=ms)])
    assert decided == word and reason.startswith("1 session: only changes above 3.0% count")


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
    verdicts = words(compare_results(write("old", old), write("new", new)))
    assert verdicts[7] == "slower" and set(verdicts[:7] + verdicts[8:]) == {"same"}
    alone = compare_results(
        write("old", [r for r in old if r.case.N == 7]), write("new", [r for r in new if r.case.N == 7])
    )
    assert words(alone) == ["unclear"]


@pytest.mark.parametrize(
    ("timer", "units", "word"), [("do_bench", 1, "unclear"), ("do_bench", 10**6, "unclear"), ("graph", 1, "slower")]
)
def test_two_ticks_of_the_event_clock_are_no_change(verdict: Judge, timer: str, units: int, word: str) -> None:
    old = [row(ms=0.00128 / units, session=s, timer=timer) for s in range(3)]
    new = [row(ms=0.00133 / units, session=s, timer=timer) for s in range(3)]  # 3.9 %, and less than two ticks of 32 ns
    assert verdict(old, new)[0] == word


def test_the_ratio_is_that_of_the_sessions_geometric_means(write: Write) -> None:
    [only] = compare_results(write("old", sessions(1.0, 2.0, 4.0)), write("new", sessions(3.0, 3.0, 3.0))).rows
    assert only.old and only.new
    assert (only.old.value, only.new.value, only.ratio) == pytest.approx((2.0, 3.0, 1.5))
    assert only.ci and only.ci[0] < 1.5 < only.ci[1] and only.q is not None


@pytest.mark.parametrize("count", [1, 3])
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


T_OF_4_DEGREES = 2.776445
"""The 97.5 % quantile of Student's t distribution with 4 degrees of freedom."""


def test_a_row_alone_has_the_interval_of_a_two_sample_t_test(write: Write) -> None:
    """Three sessions a side that scatter by 2 %: the standard error of the change is 2 % times sqrt(1/3 + 1/3)."""
    times = [math.exp(log) for log in (-0.02, 0.0, 0.02)]
    [only] = compare_results(write("old", sessions(*times)), write("new", sessions(*times[::-1]))).rows
    expected = math.exp(T_OF_4_DEGREES * 0.02 * math.sqrt(1 / 3 + 1 / 3))
    assert only.ci == pytest.approx((1 / expected, expected), rel=1e-4)
    assert "about 40 sessions per side" in only.reason, "36 is 2 (2 x 2.1 x 0.02 / log 1.02)^2"


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        ((1.5, 1.8, 2.6), "probably slower: about 4 sessions per side would decide it"),
        ((0.3, 0.6, 3.0), "too noisy: the margin needs more than 1000 sessions per side; quieten"),
    ],
)
def test_noise_asks_for_the_sessions_that_decide(verdict: Judge, new: tuple[float, ...], reason: str) -> None:
    drifted = with_copies(sessions(*new), 1.02, 1.02, 1.02)
    word, why = verdict(with_copies(sessions(0.9, 1.0, 1.1), 1, 1, 1), drifted)
    assert word == "unclear" and why.startswith(reason) and "drift" not in why


# ---- the drift of the machine


def with_copies(rows: Iterable[Row], *levels: float, cases: int = 8) -> list[Row]:
    """Rows, and `copy` controls of so many cases that take 1 ms times each session's level."""
    sizes = range(1000, 1000 + cases)
    copies = [
        row(n, level, provider="copy", role=Role.CONTROL, session=s) for n in sizes for s, level in enumerate(levels)
    ]
    return [*rows, *copies]


def test_the_drift_explains_what_lies_near_it_and_nothing_else(write: Write) -> None:
    """The machine became 3 % slower. With copies alone, a row that became 1.5 % faster to 7.7 % slower may be unchanged."""
    old = [r for n in range(1, 20) for r in sessions(1.0, 1.0, 1.0, n=n)]
    levels = {1: 2.06, 2: 0.4, 3: 1.08, 4: 1.07, 5: 0.99, 6: 0.98}
    new = [r for n in range(1, 20) for r in sessions(*3 * [levels.get(n, 1.03)], n=n)]
    a = write("old", with_copies(old, 1, 1, 1))
    comparison = compare_results(a, write("new", with_copies(new, 1.03, 1.03, 1.03)))
    row_at = {judged.key.case.N: judged for judged in comparison.rows}
    expected = ["slower", "faster", "slower", "unclear", "unclear", "faster", "unclear"]
    assert [row_at[n].verdict.value for n in range(1, 8)] == expected
    said = "the machine drifted by +3.0%, which may explain changes from -4.3% to +4.5%"
    assert [row_at[n].reason for n in (1, 4, 7)] == ["", said, said]
    one = compare_results(  # one session on a side
        write("old", with_copies(sessions(1.0), 1)), write("new", with_copies(sessions(1.15), 1.03))
    )
    assert words(one) == ["slower"] and "1 session" in one.rows[0].reason


def test_a_session_cut_short_takes_no_copies_from_the_others(write: Write) -> None:
    """A slower machine, and a third session that was interrupted after two cases: more data, the same words."""
    cases = range(1000, 1008)
    old = [r for n in cases for r in sessions(1.0, 1.002, 0.998, n=n)]
    new = [r for n in cases for r in sessions(*(1.01, 1.012), n=n)]
    cut = [row(n, 1.015, provider=name, role=role, session=2) for n in (1000, 1001)
           for name, role in (("triton", "provider"), ("copy", Role.CONTROL))]  # fmt: skip
    a = write("old", with_copies(old, 1.0, 1.002, 0.998))
    b = write("new", [*with_copies(new, 1.01, 1.012), *cut])
    comparison = compare_results(a, b)
    assert set(words(comparison)) == {"same"}
    drift = comparison.drifts[""]
    assert drift.cases == 8 and drift.change == pytest.approx(math.log(1.011), abs=1e-4)
    assert comparison.rows[0].ratio == pytest.approx(1.0, abs=1e-3), "the short session's own copies put it right"


def test_every_device_of_a_fleet_has_its_own_drift(write: Write) -> None:
    """One of two machines is 1.2 % slower, copies and all; most cases were measured on the other."""

    def fleet(name: str, slower: float) -> Path:
        rows = []
        for n in range(1, 31):
            device, level = ("NVIDIA H200", 1.0) if n <= 20 else ("NVIDIA H100", slower)
            for s, wobble in enumerate((1.0, 1.001, 0.999)):
                ms = level * wobble
                rows += [
                    row(n, ms, session=s, device=device),
                    row(n, ms, "copy", session=s, device=device, role=Role.CONTROL),
                ]
        return write(name, rows)

    a, b = fleet("old", 1.0), fleet("new", 1.012)
    comparison = compare_results(a, b)
    assert set(words(comparison)) == {"same"}
    changes = {device: drift.change for device, drift in comparison.drifts.items()}
    assert changes == {"NVIDIA H100": pytest.approx(math.log(1.012)), "NVIDIA H200": pytest.approx(0.0, abs=1e-9)}


# ---- rows without a time


def test_a_failure_in_one_session_of_three_is_a_failure(verdict: Judge) -> None:
    partly = [row(session=0), failed(session=1), row(session=2)]
    assert verdict(sessions(1, 1, 1), partly) == (
        "failed",
        "wrong (1 of 3 sessions has no time): differs at 3 elements",
    )
    mixed = [failed(session=0, status="unavailable"), failed(session=1, status="crashed"), row(session=2)]
    assert verdict(sessions(1, 1, 1), mixed) == (
        "failed",
        "crashed (2 of 3 sessions have no time): differs at 3 elements",
    )


def test_a_side_without_the_metric_is_named(write: Write) -> None:
    known = [row(1, tflops=2.0), *(row(2, session=s, tflops=2.0) for s in range(3)), row(3, tflops=2.0), row(4), row(5)]
    less = [row(1), row(2, tflops=2.0), row(2, session=1), row(2, session=2, tflops=2.0), failed(3), row(4), row(6)]
    old, new = write("old", known), write("new", less)
    options = CompareOptions(metric="tflops")
    judgements = [(each.verdict, each.reason) for each in compare_results(old, new, options=options).rows]
    lacks = "the {} side has no tflops in {} of {}"
    neither = ("untimed", f"{lacks.format('old', 1, '1 session')}; {lacks.format('new', 1, '1 session')}")
    failure = "wrong: differs at 3 elements"
    partly = ("untimed", "the new side has no tflops in 1 of 3 sessions")
    lost = ("untimed", lacks.format("new", 1, "1 session"))
    assert judgements == [lost, partly, ("failed", failure), neither, ("missing", ""), ("new", "")]
    judgements = [(each.verdict, each.reason) for each in compare_results(new, old, options=options).rows]
    assert judgements[0] == ("untimed", lacks.format("old", 1, "1 session")) and judgements[2] == (
        "fixed",
        f"was {failure}",
    )
