"""What the machine did between two files: the copy controls say it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import pytest
from making import Write, row, sessions
from verdicts import words

from kbench.comparison.compare import compare_results
from kbench.results.row import Row
from kbench.results.vocabulary import Role


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
