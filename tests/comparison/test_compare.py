"""Two results files compared: which rows belong together, and which word each gets."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from making import Write, failed, row, sessions

from kbench.comparison.compare import compare_results
from kbench.comparison.gate import Gate
from kbench.comparison.model import Comparison
from kbench.comparison.options import CompareOptions
from kbench.comparison.verdict import Verdict
from kbench.errors import ResultsError, UsageError
from kbench.results.case import Case
from kbench.results.row import Row
from kbench.results.vocabulary import Role


@pytest.fixture
def verdict(write: Write) -> Callable[[Iterable[Row], Iterable[Row]], tuple[str, str]]:
    """The word and reason of two files that hold one key."""

    def verdict(old: Iterable[Row], new: Iterable[Row]) -> tuple[str, str]:
        [only] = compare_results(write("old", old), write("new", new)).rows
        return only.verdict, only.reason

    return verdict


def gate(comparison: Comparison, fail_on: set[str]) -> bool:
    return Gate.of(fail_on, strict=False).judge(comparison).passed


Judge = Callable[[Iterable[Row], Iterable[Row]], tuple[str, str]]


def words(comparison: Comparison) -> list[str]:
    return [verdict.verdict for verdict in comparison.rows]


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


def test_three_percent_is_three_percent_in_floating_point_too(verdict: Judge) -> None:
    for old, new in ((0.1, 0.103), (3.0, 3.09)):  # 0.103 / 0.1 is 1.0299999999999998
        assert verdict([row(ms=old)], [row(ms=new)])[0] == "slower"


def test_more_sessions_on_one_side_only_do_not_help(verdict: Judge) -> None:
    many = [row(ms=1.0 + s / 1e4, session=s) for s in range(5)]
    word, reason = verdict(many, [row(ms=1.025)])
    assert word == "unclear" and reason.startswith("1 session")


def test_samples_and_rounds_are_no_evidence(verdict: Judge) -> None:
    old, new = ({"round_ms": (ms,) * 50, "samples": 10_000} for ms in (1.0, 1.02))
    word, reason = verdict([row(**old)], [row(ms=1.02, **new)])
    assert word == "unclear" and reason.startswith("1 session")


def test_rounds_that_scatter_raise_the_floor(verdict: Judge) -> None:
    calm, wild = (1.0, 1.001, 0.999, 1.0, 1.0), (1.0, 1.3, 0.8, 1.1, 0.9)
    assert verdict([row(round_ms=calm)], [row(ms=1.08, round_ms=calm)])[0] == "slower"
    word, reason = verdict([row(round_ms=calm)], [row(ms=1.08, round_ms=wild)])
    assert word == "unclear" and float(reason.split("above ")[1].split("%")[0]) > 8


def test_a_machine_that_cannot_repeat_itself_raises_the_floor(write: Write) -> None:
    repeats = [row(n, provider="repeat", role=Role.CONTROL, speedup=1.05) for n in range(1, 6)]
    old = write("old", [*(row(n) for n in range(1, 6)), *repeats])
    comparison = compare_results(old, write("new", [row(n, 1.06) for n in range(1, 6)]))
    assert words(comparison) == ["unclear"] * 5 and "above 10.0%" in comparison.rows[0].reason


def test_a_case_whose_copy_moved_raises_its_own_floor(write: Write) -> None:
    """Bytes that fill the cache just so are copied at two speeds, and by a kernel too: no other case knows."""

    def rows(ms: float, copy: float) -> list[Row]:
        copies = [row(n, copy if n == 1 else 1.0, "copy", role=Role.CONTROL) for n in range(1, 10)]
        return [*(row(n, ms) for n in (1, 2)), *copies]

    comparison = compare_results(write("old", rows(1.0, 1.0)), write("new", rows(1.06, 1.04)))
    assert words(comparison) == ["unclear", "slower"] and "above 8.2%" in comparison.rows[0].reason


@pytest.mark.parametrize("count", [1, 3])
def test_a_session_of_one_sample_is_never_slower(verdict: Judge, count: int) -> None:
    once = [row(ms=9.0, session=s, samples=1) for s in range(count)]
    assert verdict([row(session=s, samples=100) for s in range(count)], once)[0] == "unclear"


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


def test_two_sessions_are_believed_and_said(verdict: Judge) -> None:
    assert verdict(sessions(1.0, 1.0001), sessions(1.1, 1.1001, 1.1)) == ("slower", "only 2 sessions")


def test_unclear_says_how_many_sessions_would_tell(verdict: Judge) -> None:
    word, reason = verdict(sessions(1.0, 1.02, 0.99), sessions(1.01, 1.03, 1.0))
    assert word == "unclear" and "sessions per side would settle it" in reason


def test_no_number_of_sessions_helps_where_they_have_nothing_in_common(verdict: Judge) -> None:
    word, reason = verdict(sessions(1.0, 2.0, 0.5), sessions(1.1, 0.6, 1.9))
    assert word == "unclear" and reason.startswith(
        "too noisy: more than 1000 sessions per side would be needed; quieten"
    )


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


def test_the_margin_is_the_callers(write: Write) -> None:
    old = write("old", [r for n in (1, 2) for r in sessions(1.0, 1.001, 1.002, n=n)])
    new = write("new", [r for n in (1, 2) for r in sessions(1.031, 1.03, 1.032, n=n)])
    assert words(compare_results(old, new)) == ["slower"] * 2
    assert words(compare_results(old, new, options=CompareOptions(margin=0.05))) == ["same"] * 2
    for margin in (0, -1, 1):
        with pytest.raises(UsageError, match="margin"):
            compare_results(old, new, options=CompareOptions(margin=margin))


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


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_file_against_itself_is_the_same(write: Write, count: int) -> None:
    when = {"started_at": "2026-11-20T10:00:00+00:00"}
    rows = [row(n, random.uniform(0.9, 1.1), session=s, **when) for n in range(1, 50) for s in range(count)]
    old = write("old", rows)
    comparison = compare_results(old, old)
    assert comparison.counts == {"same": 49}
    assert all(gate(comparison, {word}) for word in Verdict if word != "same")
    assert comparison.geomeans[0].ratio == pytest.approx(1.0)


# ---- what the machine did meanwhile


def with_copies(rows: Iterable[Row], *levels: float, cases: int = 8) -> list[Row]:
    """Rows, and `copy` controls of so many cases that take 1 ms times each session's level."""
    sizes = range(1000, 1000 + cases)
    copies = [
        row(n, level, provider="copy", role=Role.CONTROL, session=s) for n in sizes for s, level in enumerate(levels)
    ]
    return [*rows, *copies]


def test_what_moves_the_copies_too_is_the_machine(write: Write) -> None:
    """Sessions at 0, +1 and -1 %, and the second file 1 % slower throughout, kernel and copy alike."""
    levels = (1.0, 1.01, 0.99)
    old = [r for n in range(1, 20) for r in sessions(*levels, n=n)]
    new = [r for n in range(1, 20) for r in sessions(*(1.01 * level for level in levels), n=n)]
    a = write("old", with_copies(old, *levels))
    b = write("new", with_copies(new, *(1.01 * level for level in levels)))
    comparison = compare_results(a, b)
    assert set(words(comparison)) == {"same"}
    assert comparison.rows[0].ratio == pytest.approx(1.0)
    drift = comparison.drifts[str(b)]
    assert drift.known and drift.change == pytest.approx(math.log(1.01))


def test_what_moves_all_rows_and_not_the_copies_is_the_code(write: Write) -> None:
    levels = (1.0, 1.004, 0.996)
    old = [r for n in range(1, 20) for r in sessions(*levels, n=n)]
    new = [r for n in range(1, 20) for r in sessions(*(1.03 * level for level in levels), n=n)]
    comparison = compare_results(write("old", with_copies(old, *levels)), write("new", with_copies(new, *levels)))
    assert set(words(comparison)) == {"slower"}


def test_a_machine_that_drifted_by_more_than_the_margin_tells_nothing(write: Write) -> None:
    old = [r for n in range(1, 20) for r in sessions(1.0, 1.0, 1.0, n=n)]
    new = [r for n in range(1, 20) for r in sessions(1.2, 1.2, 1.2, n=n)]
    comparison = compare_results(
        write("old", with_copies(old, 1, 1, 1)), write("new", with_copies(new, 1.04, 1.04, 1.04))
    )
    assert set(words(comparison)) == {"unclear"} and "machine drifted by +4.0%" in comparison.rows[0].reason


def test_a_drift_does_not_hide_a_change_that_is_much_larger(write: Write) -> None:
    """The machine became 3 % slower. Twice the time cannot come from that, and 20 % more can."""
    old = [r for n in range(1, 20) for r in sessions(1.0, 1.0, 1.0, n=n)]
    levels = {1: 2.06, 2: 0.4, 3: 1.2}
    new = [r for n in range(1, 20) for r in sessions(*3 * [levels.get(n, 1.03)], n=n)]
    a = write("old", with_copies(old, 1, 1, 1))
    comparison = compare_results(a, write("new", with_copies(new, 1.03, 1.03, 1.03)))
    found = {dict(judged.key.axes)["N"]: judged for judged in comparison.rows}
    assert [found[n].verdict.value for n in (1, 2, 3, 4)] == ["slower", "faster", "unclear", "unclear"]
    assert "machine drifted by +3.0% (copy control), which does not explain a change of this size" in found[1].reason
    one = compare_results(  # one session on a side
        write("old", with_copies(sessions(1.0), 1)), write("new", with_copies(sessions(3.09), 1.03))
    )
    assert words(one) == ["slower"] and "1 session" in one.rows[0].reason


def test_a_few_copies_are_shown_and_not_believed(write: Write) -> None:
    a = write("old", with_copies(sessions(1.0, 1.0, 1.0), 1, 1, 1, cases=2))
    b = write("new", with_copies(sessions(1.015, 1.015, 1.015), 1.015, 1.015, 1.015, cases=2))
    comparison = compare_results(a, b)
    drift = comparison.drifts[str(b)]
    assert drift.change == pytest.approx(math.log(1.015)) and not drift.known
    assert comparison.rows[0].ratio == pytest.approx(1.015)


def test_a_session_cut_short_takes_no_copies_from_the_others(write: Write) -> None:
    """A slower machine, and a third session that was interrupted after two cases: more data, the same words."""
    cases = range(1000, 1008)
    old = [r for n in cases for r in sessions(1.0, 1.002, 0.998, n=n)]
    new = [r for n in cases for r in sessions(*(1.015, 1.017), n=n)]
    cut = [row(n, 1.02, provider=name, role=role, session=2) for n in (1000, 1001)
           for name, role in (("triton", "provider"), ("copy", Role.CONTROL))]  # fmt: skip
    a = write("old", with_copies(old, 1.0, 1.002, 0.998))
    b = write("new", [*with_copies(new, 1.015, 1.017), *cut])
    comparison = compare_results(a, b)
    assert set(words(comparison)) == {"same"}
    drift = comparison.drifts[str(b)]
    assert drift.cases == 8 and drift.change == pytest.approx(math.log(1.016), abs=1e-4)
    assert comparison.rows[0].ratio == pytest.approx(1.0, abs=1e-3), "the short session's own copies put it right"


def test_every_device_of_a_fleet_has_its_own_drift(write: Write) -> None:
    """One of two machines is 1.5 % slower, copies and all; most cases were measured on the other."""

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

    a, b = fleet("old", 1.0), fleet("new", 1.015)
    comparison = compare_results(a, b)
    assert set(words(comparison)) == {"same"}
    changes = {device: part.change for device, part in comparison.drifts[str(b)].parts.items()}
    assert changes == {"NVIDIA H100": pytest.approx(math.log(1.015)), "NVIDIA H200": pytest.approx(0.0, abs=1e-9)}


# ---- other metrics, other sides


def test_of_a_speed_more_is_better(write: Write) -> None:
    old = write("old", [row(ms=1.0, gbps=2000.0)])
    new = write("new", [row(ms=0.5, gbps=4000.0)])
    [only] = compare_results(old, new, options=CompareOptions(metric="gbps")).rows
    assert (only.verdict, only.ratio) == ("faster", pytest.approx(2.0))
    with pytest.raises(UsageError, match=r'"speed".*gbps'):
        compare_results(old, new, options=CompareOptions(metric="speed"))


def test_a_metric_that_was_not_measured_is_no_failure(write: Write) -> None:
    old = write("old", [row(achieved_gbps=1.0), row(512)])
    assert words(compare_results(old, old, options=CompareOptions(metric="achieved_gbps"))) == ["unclear", "untimed"]


def test_three_files_are_all_compared_with_the_baseline(write: Write) -> None:
    a, b, c = (write(name, [row(1, ms), row(2, ms)]) for name, ms in (("a", 1.0), ("b", 1.5), ("c", 0.5)))
    comparison = compare_results(f"main={a}", f"pr={b}", c)
    assert (comparison.baseline, comparison.contenders) == ("main", ("pr", str(c)))
    assert [(v.contender, v.verdict) for v in comparison.rows] == [("pr", "slower"), (str(c), "faster")] * 2
    assert [g.ratio for g in comparison.geomeans] == pytest.approx([1.5, 0.5])
    other = compare_results(f"main={a}", f"pr={b}", c, options=CompareOptions(baseline="pr"))
    assert other.contenders == ("main", str(c)) and set(words(other)) == {"faster"}
    with pytest.raises(UsageError, match=r'"base".*main, pr'):
        compare_results(f"main={a}", f"pr={b}", options=CompareOptions(baseline="base"))


def test_providers_of_one_file_are_paired_by_session_and_round(write: Write) -> None:
    """Rounds swing by 20 % together: as times the providers could not be told apart, as pairs they can."""
    swings = (1.0, 1.2, 0.9, 1.1, 0.95)
    rows = []
    for n in (1, 2, 3):
        for name, factor in (("torch-native", 1.0), ("triton", 0.95), ("cuda", 1.001)):
            for s, level in enumerate((1.0, 1.1, 0.9)):
                rounds = tuple(level * factor * swing for swing in swings)
                rows.append(row(n, sorted(rounds)[2], name, session=s, round_ms=rounds, samples=100))
    path = write("all", rows)
    comparison = compare_results(path, options=CompareOptions(by="provider", baseline="torch-native"))
    assert comparison.contenders == ("triton", "cuda")
    assert [(v.contender, v.verdict) for v in comparison.rows] == [("triton", "faster"), ("cuda", "same")] * 3
    assert comparison.rows[0].ratio == pytest.approx(0.95)
    with pytest.raises(
        UsageError, match=r"there is no baseline; choose one with --baseline: torch-native, triton, cuda"
    ):
        compare_results(path, options=CompareOptions(by="provider"))
    stated = write("stated", [replace(each, speedup=1.0) if each.provider == "triton" else each for each in rows])
    assert compare_results(stated, options=CompareOptions(by="provider")).baseline == "triton"
    path.with_suffix(".env.json").write_text('{"baseline": "cuda"}')
    assert compare_results(path, options=CompareOptions(by="provider")).baseline == "cuda"
    with pytest.raises(UsageError, match="the providers of one file"):
        compare_results(path, path, options=CompareOptions(by="provider"))
    with pytest.raises(UsageError, match="give two files"):
        compare_results(path)


def test_rounds_that_swing_together_are_no_scatter(write: Write) -> None:
    """One session: what counts is how the ratio of the rounds scatters, not how the rounds do."""
    rounds = (1.0, 1.3, 1.0, 1.25, 1.1)
    slower = tuple(1.1 * ms for ms in rounds)
    path = write("all", [row(ms=1.1, provider="a", round_ms=rounds), row(ms=1.21, provider="b", round_ms=slower)])
    [only] = compare_results(path, options=CompareOptions(by="provider", baseline="a")).rows
    assert only.verdict == "slower" and only.ratio == pytest.approx(1.1)


def test_providers_are_compared_by_the_metric_that_was_asked_for(write: Write) -> None:
    """Twice as fast on the device, and a launch that costs the host three times as much."""
    slow, fast = (
        {"round_ms": (ms,) * 3, "gbps": 100 / ms, "tflops": 3 / ms, "sol": 0.1 / ms, "launch_ms": host}
        for ms, host in ((1.0, 0.01), (0.5, 0.03))
    )
    path = write("all", [row(provider="slow", **slow), row(ms=0.5, provider="fast", **fast)])
    faster = [(metric, "faster", 2.0) for metric in ("gbps", "tflops", "sol")]
    for metric, word, ratio in (("ms", "faster", 0.5), *faster, ("launch_ms", "slower", 3.0)):
        [only] = compare_results(path, options=CompareOptions(by="provider", baseline="slow", metric=metric)).rows
        assert (only.verdict, only.ratio) == (word, pytest.approx(ratio))


def test_a_provider_that_failed_beside_one_that_did_not(write: Write) -> None:
    path = write("all", [row(provider="a"), failed(provider="b"), row(2, provider="a")])
    comparison = compare_results(path, options=CompareOptions(by="provider", baseline="a"))
    assert words(comparison) == ["missing", "failed"]


def test_only_the_rows_that_were_asked_for(write: Write) -> None:
    rows = [row(n, dtype=dtype) for n in (128, 4096) for dtype in ("float32", "bfloat16")]
    a = write("a", rows)
    assert len(compare_results(a, write("b", rows), options=CompareOptions(where="dtype=bf16,N>=4096")).rows) == 1
    with pytest.raises(UsageError):
        compare_results(a, a, options=CompareOptions(where="colour=red"))


# ---- rows without a time


@pytest.mark.parametrize("status", ["wrong", "error", "oom", "timeout", "crashed"])
def test_a_failure_is_never_slower(verdict: Judge, status: str) -> None:
    word, reason = verdict([row()], [failed(status=status)])
    assert word == "failed" and reason == f"{status}: differs at 3 elements"
    assert verdict([failed(status=status)], [row()])[0] == "fixed"


@pytest.mark.parametrize("status", ["unavailable", "unsupported", "checked"])
def test_what_was_not_measured_is_missing_and_not_failed(verdict: Judge, status: str) -> None:
    assert verdict([row()], [failed(status=status)])[0] == "missing"
    assert verdict([failed(status=status)], [row()])[0] == "new"
    assert verdict([failed(status=status)], [failed(status=status)])[0] == "untimed"


def test_from_declined_to_crashed_is_failed(verdict: Judge) -> None:
    assert verdict([failed(status="unsupported")], [failed(status="crashed")])[0] == "failed"
    assert verdict([failed(status="crashed")], [failed(status="unsupported")])[0] == "untimed"


def test_failed_before_and_now_is_not_a_change(verdict: Judge) -> None:
    assert verdict([failed()], [failed()]) == ("untimed", "failed on both sides: wrong: differs at 3 elements")


def test_from_flaky_to_always_wrong_is_failed(verdict: Judge) -> None:
    """There were times, and now there are none."""
    flaky = [row(session=0), failed(session=1), row(session=2)]
    assert verdict(flaky, [failed(session=s) for s in range(3)])[0] == "failed"
    assert verdict(flaky, flaky)[0] == "untimed"


def test_what_never_had_a_time_is_not_missed(write: Write) -> None:
    """A provider that this machine does not have, in one of the files alone."""
    with_it, without = write("with", [row(1), failed(2, status="unavailable")]), write("without", [row(1)])
    for old, new in ((with_it, without), (without, with_it)):
        comparison = compare_results(old, new)
        assert words(comparison) == ["unclear", "untimed"]
        assert comparison.rows[1].reason.startswith("unavailable: ")


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


def test_rows_in_one_file_only(write: Write) -> None:
    old, new = write("old", [row(1), row(2), row(3)]), write("new", [row(2), row(3), row(4), failed(5)])
    assert words(compare_results(old, new)) == ["missing", "unclear", "unclear", "new", "failed"]


@pytest.mark.parametrize("time", ["", "nan", "inf", "0.0", "-1.0", "1e308", "5e-324"])
def test_an_ok_row_whose_time_was_lost_is_no_time(write: Write, time: str) -> None:
    old, new = write("old", [row(ms=1.25)]), write("new", [row(ms=1.25)])
    new.write_text(new.read_text().replace(",1.25,", f",{time},"))
    assert words(compare_results(old, new)) == ["failed"]
    assert words(compare_results(new, old)) == ["fixed"]


# ---- conditions


@pytest.mark.parametrize("field", ["device", "timer", "cache", "case_hash"])
def test_other_conditions_are_incomparable_with_the_reason(verdict: Judge, field: str) -> None:
    word, reason = verdict([row(**{field: "this"})], [row(ms=9.0, **{field: "that"})])
    assert word == "incomparable" and reason == f"{field} this -> that"


def test_one_side_measured_in_two_ways_is_incomparable(verdict: Judge) -> None:
    mixed = [row(session=0), row(session=1, timer="graph")]
    assert verdict(mixed, mixed) == ("incomparable", "timer do_bench/graph -> do_bench/graph")


def test_an_impossible_speed_is_not_faster(verdict: Judge) -> None:
    word, reason = verdict([row()], [row(ms=0.01, flags=("noisy", "suspect"))])
    assert word == "suspect" and reason == "the new side has an implausible time (kbench explain suspect)"


def test_in_a_file_of_several_devices_each_is_compared_with_itself(write: Write) -> None:
    """A fleet measured the cases; a case may have gone to another kind of device than last time."""
    old = [row(1, device="NVIDIA H200"), row(2, device="NVIDIA H100"), row(3, device="NVIDIA H100")]
    new = [row(1, 2.0, device="NVIDIA H200"), row(2, 2.0, device="NVIDIA H100"), row(3, device="NVIDIA H200")]
    comparison = compare_results(write("old", old), write("new", new))
    assert [(dict(v.key.axes)["N"], dict(v.key.axes)["device"], v.verdict) for v in comparison.rows] == [
        (1, "NVIDIA H200", "slower"),
        (2, "NVIDIA H100", "slower"),
        (3, "NVIDIA H100", "missing"),
        (3, "NVIDIA H200", "new"),
    ]
    assert comparison.differences == ()
    alone = write("alone", [row(1, 2.0, device="NVIDIA H200")])
    assert compare_results(write("fleet", old), alone).differences == ()
    assert words(compare_results(write("h200", old[:1]), alone)) == ["slower"]


# ---- joining


def test_the_order_of_rows_changes_nothing(write: Write) -> None:
    old = [row(n, 1.0 + n / 100, session=s, provider=p) for n in (9, 10, 80) for s in (0, 1, 2) for p in ("a", "b")]
    new = [failed(9, provider="a") if r.session == 0 and r.case.N == 9 and r.provider == "a" else r for r in old]
    before = compare_results(write("old", old), write("new", new))
    random.Random(0).shuffle(old)
    random.Random(1).shuffle(new)
    assert compare_results(write("old", old), write("new", new)) == before
    assert [(v.key.axes[1][1], v.key.provider) for v in before.rows] == [(n, p) for n in (9, 10, 80) for p in "ab"]


def test_controls_are_not_compared(write: Write) -> None:
    rows = [row(), row(provider="copy", role=Role.CONTROL), row(provider="repeat", role=Role.CONTROL)]
    assert len(compare_results(write("old", rows), write("new", rows)).rows) == 1


def test_parameters_and_dtype_belong_to_the_key(write: Write) -> None:
    old = [row(), row(params="num_warps=4"), row(dtype="float16")]
    assert words(compare_results(write("old", old), write("new", old))) == ["unclear"] * 3
    assert sorted(words(compare_results(write("old", old[:2]), write("new", old[1:])))) == ["missing", "new", "unclear"]


def with_axis(name: str, value: object) -> Row:
    return replace(row(1), case=Case("softmax", {"M": 4096, "N": 1, name: value}, "float32"))  # type: ignore[dict-item]


def test_an_axis_that_not_every_file_has_is_ignored_with_one_note(write: Write) -> None:
    old = write("old", [row(1)])
    new = [write(name, [with_axis("mode", "forward")], ("M", "N", "mode")) for name in ("new", "newer")]
    told = f"the axis mode=forward was ignored, because {old} has no such axis"
    for files in ([old, *new], [new[0], old, new[1]]):
        compared = compare_results(*files)
        assert [note for note in compared.notes if note.startswith("the axis ")] == [told]
        assert {verdict.verdict for verdict in compared.rows} == {"unclear"}

    four, eight = (write(f"warps-{n}", [with_axis("warps", n)], ("M", "N", "warps")) for n in (4, 8))
    [note] = [note for note in compare_results(old, four, eight).notes if note.startswith("the axis ")]
    assert note == f"the axis warps was ignored, because {old} has no such axis; it is 4 in {four} and 8 in {eight}"


@pytest.mark.parametrize(
    ("modes", "has", "again"),
    [
        (["backward"], "only mode=backward", "mode=forward"),
        (["forward", "full"], "several values of the axis mode", "mode=forward"),
    ],
)
def test_a_gradient_is_not_compared_with_a_file_without_modes(
    write: Write, modes: list[str], has: str, again: str
) -> None:
    old = write("old", [row(1)])
    new = write("new", [with_axis("mode", mode) for mode in modes], ("M", "N", "mode"))
    with pytest.raises(UsageError) as caught:
        compare_results(old, new)
    assert str(caught.value) == (
        f"{new}: this file has {has}, but {old} has no such axis, so their rows cannot be matched; compare files of one "
        f"operator with the same axes, or measure this file again with {again}"
    )


def test_the_same_session_twice_is_an_error_with_both_lines(write: Write) -> None:
    old = write("old", [row(1), row(2), row(1)])
    with pytest.raises(ResultsError) as caught:
        compare_results(old, write("new", [row(1)]))
    assert str(caught.value).startswith(f"{old}:4: softmax M=4096 N=1 float32 triton session 0 is also on line 2")


def test_an_axis_that_is_constant_and_in_one_file_only_is_left_out_with_a_note(write: Write) -> None:
    def wide(n: int, k: int) -> Row:
        plain = row(n)
        return Row(Case("softmax", {"M": 4096, "N": n, "K": k}, "float32"), "triton", ms=1.0, **{
            name: getattr(plain, name) for name in ("timer", "cache", "device", "case_hash")
        })  # fmt: skip

    old = write("old", [row(1), row(2)])
    comparison = compare_results(old, write("new", [wide(1, 7), wide(2, 7)], ("M", "N", "K")))
    assert words(comparison) == ["unclear", "unclear"]
    assert "axis K=7" in comparison.notes[0]
    with pytest.raises(
        UsageError, match=r"several values of the axis K, .* measure this file again with one value of K"
    ):
        compare_results(old, write("new", [wide(1, 7), wide(2, 8)], ("M", "N", "K")))


def test_nothing_in_common_says_what_differs(write: Write) -> None:
    old = [row(n, dtype="float16") for n in (1, 2)]
    comparison = compare_results(write("old", old), write("new", [row(n, dtype="bfloat16") for n in (1, 2)]))
    assert not comparison.comparable
    assert comparison.geomeans[0].ratio is None
    assert comparison.nothing_common == (
        f"nothing to compare: {comparison.baseline} and {comparison.contenders[0]} have no row in common: "
        f"dtype is float16 in {comparison.baseline} and bfloat16 in {comparison.contenders[0]}"
    )


def test_a_file_with_the_baseline_alone_says_so(write: Write) -> None:
    path = write("all", [row(provider="a")])
    comparison = compare_results(path, options=CompareOptions(by="provider", baseline="a"))
    assert comparison.nothing_common == f"{path} has no other provider that could be compared with the baseline a"


def test_values_that_differ_are_named_in_their_order(write: Write) -> None:
    old, new = write("old", [row(n) for n in (4096, 256, 1024, 512)]), write("new", [row(n) for n in (8, 16)])
    told = compare_results(f"old={old}", f"new={new}").nothing_common
    assert told.endswith(": N is 256, 512, 1024, ... in old and 8, 16 in new")


def test_a_file_without_rows_is_named(write: Write) -> None:
    old, new = write("old", [row()]), write("new", [])
    assert (
        compare_results(f"old={old}", f"new={new}").nothing_common == "nothing to compare: new has no row of a provider"
    )


def test_one_contender_of_two_with_nothing_in_common_is_a_note(write: Write) -> None:
    a, b, c = write("a", [row(1)]), write("b", [row(1)]), write("c", [row(2)])
    comparison = compare_results(f"a={a}", f"b={b}", f"c={c}")
    assert comparison.nothing_common == ""
    assert comparison.notes[0].startswith("nothing to compare: a and c have no row in common: N is 1 in a and 2 in c")


def test_two_empty_files(write: Write) -> None:
    comparison = compare_results(write("old", []), write("new", []))
    assert comparison.rows == () and not comparison.comparable and not gate(comparison, {"slower", "missing"})
    assert "have no row of a provider" in comparison.nothing_common


def test_a_torn_file_is_compared_and_noted(write: Write) -> None:
    new = write("new", [row(1), row(2)])
    new.write_text(new.read_text()[:-40])
    comparison = compare_results(write("old", [row(1), row(2)]), new)
    assert words(comparison) == ["unclear", "missing"]
    assert "incomplete" in comparison.notes[0]


# ---- the whole


def test_the_geomean_is_of_the_rows_that_both_files_have(write: Write) -> None:
    old = [row(1, 1.0), row(2, 1.0), row(3, 1e-6), failed(4), row(5, timer="graph")]
    new = [row(1, 2.0), row(2, 8.0), failed(3), row(4, 1e6), row(5), row(6, 1e6)]
    comparison = compare_results(write("old", old), write("new", new))
    [geomean] = comparison.geomeans
    assert geomean.ratio == pytest.approx(4.0)
    assert (geomean.rows, geomean.total) == (2, 6)


def test_files_without_a_common_condition_are_not_comparable_but_failures_are(write: Write) -> None:
    old = write("old", [row(1), row(2)])
    assert not compare_results(old, write("new", [row(1, device="other"), row(2, device="other")])).comparable
    assert compare_results(old, write("new", [failed(1), failed(2)])).comparable
    assert not compare_results(old, write("new", [failed(3)])).comparable


@pytest.mark.parametrize("count", [1, 255, 256, 257])
def test_the_gate_closes_on_any_number_of_slower_rows(write: Write, count: int) -> None:
    old, new = [row(n) for n in range(count)], [row(n, 1.5) for n in range(count)]
    comparison = compare_results(write("old", old), write("new", new))
    assert comparison.counts == {"slower": count}
    assert gate(comparison, {"slower"}) is False
    assert gate(comparison, {"failed", "missing"}) is True
    assert gate(comparison, set()) is True


def test_the_gate_stays_open_when_everything_got_faster(write: Write) -> None:
    comparison = compare_results(write("old", [row(n) for n in (1, 2)]), write("new", [row(n, 0.5) for n in (1, 2)]))
    assert gate(comparison, {"slower", "failed", "missing"})


def test_a_missing_row_closes_the_gate_for_missing_rows(write: Write) -> None:
    comparison = compare_results(write("old", [row(1), row(2)]), write("new", [row(1)]))
    assert not gate(comparison, {"missing"})


def test_a_word_that_is_no_verdict_is_refused(write: Write) -> None:
    comparison = compare_results(write("old", [row()]), write("new", [row()]))
    with pytest.raises(UsageError, match=r'"regressed".*slower'):
        gate(comparison, {"slower", "regressed"})


def test_all_rows_failed_on_both_sides(write: Write) -> None:
    rows = [failed(n) for n in (1, 2)]
    comparison = compare_results(write("old", rows), write("new", rows))
    assert comparison.counts == {"untimed": 2}
    assert comparison.geomeans[0].ratio is None


def test_comparing_needs_neither_torch_nor_matplotlib() -> None:
    code = (
        "import sys, kbench.comparison as c; print({'torch', 'triton', 'matplotlib', 'scipy.stats'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_providers_are_told_apart_by_as_little_as_the_noise_allows_unless_a_margin_is_asked_for(write: Write) -> None:
    steady = {n: tuple(1.0 + wobble for wobble in (0, 1e-4, -1e-4, 0, 1e-4)) for n in range(1, 21)}
    rows = [
        row(n, factor, provider=name, role=role, round_ms=tuple(factor * ms for ms in rounds), speedup=1 / factor)
        for n, rounds in steady.items()
        for name, role, factor in (
            ("a", "provider", 1.0),
            ("b", "provider", 0.99),
            ("c", "provider", 1.001),
            ("repeat", Role.CONTROL, 1.0005),
        )
    ]
    path = write("all", rows)
    assert compare_results(path, options=CompareOptions(by="provider", baseline="a")).counts == {
        "faster": 20,
        "same": 20,
    }
    assert compare_results(path, options=CompareOptions(by="provider", baseline="a", margin=0.05)).counts == {
        "same": 40
    }


@pytest.mark.parametrize("status", ["checked", "unsupported", "unavailable"])
def test_a_provider_that_was_not_timed_beside_another_is_untimed_not_missing(write: Write, status: str) -> None:
    path = write("all", [row(provider="base"), failed(provider="other", status=status)])
    for baseline, reason in (("base", status), ("other", f"baseline: {status}")):
        [only] = compare_results(path, options=CompareOptions(by="provider", baseline=baseline)).rows
        assert only.verdict == "untimed" and only.reason.startswith(reason)
