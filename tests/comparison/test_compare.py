"""Two results files compared: which rows belong together, and which word each gets."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from kbench.comparison import Comparison, compare, gate
from kbench.execute.writer import Writer
from kbench.results import CONTROL, Case, Row
from kbench.table import TableError

Write = Callable[..., Path]


def row(n: int = 256, ms: float | None = 1.0, provider: str = "triton", **fields: object) -> Row:
    case = Case("softmax", {"M": 4096, "N": n}, str(fields.pop("dtype", "float32")))
    constant = {"timer": "do_bench", "cache": "cold", "device": "NVIDIA H200", "case_hash": "c0ffee"}
    return Row(case, provider, **{**constant, "ms": ms, **fields})  # type: ignore[arg-type]


def failed(n: int = 256, status: str = "wrong", provider: str = "triton", **fields: object) -> Row:
    return row(n, None, provider, status=status, reason="differs at 3 elements", **fields)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str, rows: Iterable[Row], axes: tuple[str, ...] = ("M", "N")) -> Path:
        writer = Writer(tmp_path / f"{name}.csv", axes)
        writer.write(list(rows))
        return writer.path

    return write


@pytest.fixture
def verdict(write: Write) -> Callable[[Iterable[Row], Iterable[Row]], tuple[str, str]]:
    """The word and reason of two files that hold one key."""

    def verdict(old: Iterable[Row], new: Iterable[Row]) -> tuple[str, str]:
        [only] = compare(write("old", old), write("new", new)).rows
        return only.word, only.reason

    return verdict


Judge = Callable[[Iterable[Row], Iterable[Row]], tuple[str, str]]


def words(comparison: Comparison) -> list[str]:
    return [verdict.word for verdict in comparison.rows]


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
    assert verdict([row()], [row(ms=ms)]) == (word, "1 session")


def test_three_percent_is_three_percent_in_floating_point_too(verdict: Judge) -> None:
    for old, new in ((0.1, 0.103), (3.0, 3.09)):  # 0.103 / 0.1 is 1.0299999999999998
        assert verdict([row(ms=old)], [row(ms=new)])[0] == "slower"


def test_more_sessions_on_one_side_only_do_not_help(verdict: Judge) -> None:
    many = [row(ms=1.0 + s / 1e4, session=s) for s in range(5)]
    assert verdict(many, [row(ms=1.025)]) == ("unclear", "1 session")


def test_samples_and_rounds_are_no_evidence(verdict: Judge) -> None:
    rounds = {"round_ms": (1.02,) * 50, "samples": 10_000}
    assert verdict([row(**rounds)], [row(ms=1.02, **rounds)]) == ("unclear", "1 session")


# ---- several sessions on both sides: their ranges


def sessions(*ms: float) -> list[Row]:
    return [row(ms=t, session=s) for s, t in enumerate(ms)]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ((1.0, 1.01, 1.005), (1.04, 1.03, 1.05), ("slower", "")),
        ((1.04, 1.03, 1.05), (1.0, 1.01, 1.005), ("faster", "")),
        ((1.0, 1.002, 1.001), (1.003, 1.004, 1.005), ("same", "")),
        ((1.0, 1.0, 1.0), (1.0, 1.0, 1.0), ("same", "")),
        ((1.0, 1.06, 1.0), (1.05, 1.05, 1.07), ("unclear", "sessions overlap")),
        ((1.0, 1.001, 0.96), (1.01, 1.011, 1.012), ("unclear", "change below 2%")),
        ((1.0, 1.0), (1.1, 1.1), ("slower", "2 sessions")),
        ((1.0, 1.0), (1.1, 1.1, 1.1), ("slower", "2 sessions")),
    ],
)
def test_with_sessions_on_both_sides_the_ranges_decide(
    verdict: Judge, old: tuple[float, ...], new: tuple[float, ...], expected: tuple[str, str]
) -> None:
    assert verdict(sessions(*old), sessions(*new)) == expected


def test_the_ratio_is_that_of_the_sessions_medians(write: Write) -> None:
    [only] = compare(write("old", sessions(1.0, 2.0, 100.0)), write("new", sessions(3.0, 3.0, 0.1))).rows
    assert (only.old_ms, only.new_ms, only.ratio) == pytest.approx((2.0, 3.0, 1.5))


def test_swapping_the_files_swaps_the_words(write: Write) -> None:
    random.seed(1)
    old = [row(n, random.uniform(0.9, 1.1)) for n in range(1, 100)]
    new = [row(n, random.uniform(0.9, 1.1)) for n in range(1, 100)]
    a, b = write("a", old), write("b", new)
    swap = {"slower": "faster", "faster": "slower", "unclear": "unclear"}
    there, back = compare(a, b), compare(b, a)
    assert set(words(there)) == set(swap)
    assert [swap[word] for word in words(there)] == words(back)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_file_against_itself_is_never_faster_or_slower(write: Write, count: int) -> None:
    rows = [row(n, random.uniform(0.9, 1.1), session=s) for n in range(1, 50) for s in range(count)]
    comparison = compare(write("old", rows), write("new", rows))
    assert comparison.counts.keys() <= {"same", "unclear"}
    assert comparison.geomean == pytest.approx(1.0)


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
    assert verdict([failed(status=status)], [failed(status=status)])[0] == "incomparable"


def test_from_declined_to_crashed_is_failed(verdict: Judge) -> None:
    assert verdict([failed(status="unsupported")], [failed(status="crashed")])[0] == "failed"
    assert verdict([failed(status="crashed")], [failed(status="unsupported")])[0] == "incomparable"


def test_failed_before_and_now_is_not_a_change(verdict: Judge) -> None:
    assert verdict([failed()], [failed()]) == ("incomparable", "failed in both: wrong: differs at 3 elements")


def test_a_failure_in_one_session_of_three_is_a_failure(verdict: Judge) -> None:
    partly = [row(session=0), failed(session=1), row(session=2)]
    assert verdict(sessions(1, 1, 1), partly) == (
        "failed",
        "wrong (1 of 3 sessions have no time): differs at 3 elements",
    )
    mixed = [failed(session=0, status="unavailable"), failed(session=1, status="crashed"), row(session=2)]
    assert verdict(sessions(1, 1, 1), mixed) == (
        "failed",
        "crashed (2 of 3 sessions have no time): differs at 3 elements",
    )


def test_rows_in_one_file_only(write: Write) -> None:
    old, new = write("old", [row(1), row(2), row(3)]), write("new", [row(2), row(3), row(4), failed(5)])
    assert words(compare(old, new)) == ["missing", "unclear", "unclear", "new", "failed"]


@pytest.mark.parametrize("time", ["", "nan", "inf", "0.0", "-1.0"])
def test_an_ok_row_whose_time_was_lost_is_no_time(write: Write, time: str) -> None:
    old, new = write("old", [row(ms=1.25)]), write("new", [row(ms=1.25)])
    new.write_text(new.read_text().replace(",1.25,", f",{time},"))
    assert words(compare(old, new)) == ["failed"]
    assert words(compare(new, old)) == ["fixed"]


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
    assert word == "unclear" and "suspect" in reason


# ---- joining


def test_the_order_of_rows_changes_nothing(write: Write) -> None:
    old = [row(n, 1.0 + n / 100, session=s, provider=p) for n in (9, 10, 80) for s in (0, 1, 2) for p in ("a", "b")]
    new = [failed(9, provider="a") if r.session == 0 and r.case.N == 9 and r.provider == "a" else r for r in old]
    before = compare(write("old", old), write("new", new))
    random.Random(0).shuffle(old)
    random.Random(1).shuffle(new)
    assert compare(write("old", old), write("new", new)) == before
    assert [(v.key.axes[1][1], v.key.provider) for v in before.rows] == [(n, p) for n in (9, 10, 80) for p in "ab"]


def test_controls_are_not_compared(write: Write) -> None:
    rows = [row(), row(provider="copy", role=CONTROL), row(provider="repeat", role=CONTROL)]
    assert len(compare(write("old", rows), write("new", rows)).rows) == 1


def test_parameters_and_dtype_belong_to_the_key(write: Write) -> None:
    old = [row(), row(params="num_warps=4"), row(dtype="float16")]
    assert words(compare(write("old", old), write("new", old))) == ["unclear"] * 3
    assert sorted(words(compare(write("old", old[:2]), write("new", old[1:])))) == ["missing", "new", "unclear"]


def test_the_same_session_twice_is_an_error_with_both_lines(write: Write) -> None:
    old = write("old", [row(1), row(2), row(1)])
    with pytest.raises(TableError) as caught:
        compare(old, write("new", [row(1)]))
    assert str(caught.value).startswith(f"{old}:4: softmax M=4096 N=1 float32 triton session 0 is on line 2")


def test_an_axis_that_is_constant_and_in_one_file_only_is_left_out_with_a_note(write: Write) -> None:
    def wide(n: int, k: int) -> Row:
        plain = row(n)
        return Row(Case("softmax", {"M": 4096, "N": n, "K": k}, "float32"), "triton", ms=1.0, **{
            name: getattr(plain, name) for name in ("timer", "cache", "device", "case_hash")
        })  # fmt: skip

    old = write("old", [row(1), row(2)])
    comparison = compare(old, write("new", [wide(1, 7), wide(2, 7)], ("M", "N", "K")))
    assert words(comparison) == ["unclear", "unclear"]
    assert "axis K=7" in comparison.notes[0]
    with pytest.raises(TableError, match="axis K varies"):
        compare(old, write("new", [wide(1, 7), wide(2, 8)], ("M", "N", "K")))


def test_nothing_in_common_says_what_differs(write: Write) -> None:
    old = [row(n, dtype="float16") for n in (1, 2)]
    comparison = compare(write("old", old), write("new", [row(n, dtype="bfloat16") for n in (1, 2)]))
    assert not comparison.comparable
    assert comparison.geomean is None
    [note] = comparison.notes
    assert note == "no rows in common; dtype is float16 in the old file, bfloat16 in the new"


def test_two_empty_files(write: Write) -> None:
    comparison = compare(write("old", []), write("new", []))
    assert comparison.rows == () and not comparison.comparable and gate(comparison, {"slower", "missing"})


def test_a_torn_file_is_compared_and_noted(write: Write) -> None:
    new = write("new", [row(1), row(2)])
    new.write_text(new.read_text()[:-40])
    comparison = compare(write("old", [row(1), row(2)]), new)
    assert words(comparison) == ["unclear", "missing"]
    assert "incomplete" in comparison.notes[0]


# ---- the whole


def test_the_geomean_is_of_the_rows_that_both_files_have(write: Write) -> None:
    old = [row(1, 1.0), row(2, 1.0), row(3, 1e-6), failed(4), row(5, timer="graph")]
    new = [row(1, 2.0), row(2, 8.0), failed(3), row(4, 1e6), row(5), row(6, 1e6)]
    comparison = compare(write("old", old), write("new", new))
    assert comparison.geomean == pytest.approx(4.0)
    assert (len(comparison.compared), len(comparison.rows)) == (2, 6)


def test_files_without_a_common_condition_are_not_comparable_but_failures_are(write: Write) -> None:
    old = write("old", [row(1), row(2)])
    assert not compare(old, write("new", [row(1, device="other"), row(2, device="other")])).comparable
    assert compare(old, write("new", [failed(1), failed(2)])).comparable


@pytest.mark.parametrize("count", [1, 255, 256, 257])
def test_the_gate_closes_on_any_number_of_slower_rows(write: Write, count: int) -> None:
    old, new = [row(n) for n in range(count)], [row(n, 1.5) for n in range(count)]
    comparison = compare(write("old", old), write("new", new))
    assert comparison.counts == {"slower": count}
    assert gate(comparison, {"slower"}) is False
    assert gate(comparison, {"failed", "missing"}) is True
    assert gate(comparison, set()) is True


def test_the_gate_stays_open_when_everything_got_faster(write: Write) -> None:
    comparison = compare(write("old", [row(n) for n in (1, 2)]), write("new", [row(n, 0.5) for n in (1, 2)]))
    assert gate(comparison, {"slower", "failed", "missing"})


def test_a_missing_row_closes_the_gate_for_missing_rows(write: Write) -> None:
    comparison = compare(write("old", [row(1), row(2)]), write("new", [row(1)]))
    assert not gate(comparison, {"missing"})


def test_a_word_that_is_no_verdict_is_refused(write: Write) -> None:
    comparison = compare(write("old", [row()]), write("new", [row()]))
    with pytest.raises(TableError, match=r"'regressed'.*slower"):
        gate(comparison, {"slower", "regressed"})


def test_all_rows_failed_on_both_sides(write: Write) -> None:
    rows = [failed(n) for n in (1, 2)]
    comparison = compare(write("old", rows), write("new", rows))
    assert comparison.counts == {"incomparable": 2}
    assert comparison.geomean is None or math.isnan(comparison.geomean)


def test_comparing_needs_neither_torch_nor_matplotlib() -> None:
    code = "import sys, kbench.comparison.render; print({'torch', 'triton', 'matplotlib'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
