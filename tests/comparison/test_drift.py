"""What the machine did between two files: the copy controls and the unchanged baseline say it."""

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


def test_the_drift_explains_what_lies_near_it_and_nothing_else(write: Write) -> None:
    """The machine became 3 % slower. With copies alone, a row that became 1.5 % faster to 7.7 % slower may be unchanged."""
    old = [r for n in range(1, 20) for r in sessions(1.0, 1.0, 1.0, n=n)]
    levels = {1: 2.06, 2: 0.4, 3: 1.08, 4: 1.07, 5: 0.99, 6: 0.98}
    new = [r for n in range(1, 20) for r in sessions(*3 * [levels.get(n, 1.03)], n=n)]
    a = write("old", with_copies(old, 1, 1, 1))
    comparison = compare_results(a, write("new", with_copies(new, 1.03, 1.03, 1.03)))
    found = {dict(judged.key.axes)["N"]: judged for judged in comparison.rows}
    expected = ["slower", "faster", "slower", "unclear", "unclear", "faster", "unclear"]
    assert [found[n].verdict.value for n in range(1, 8)] == expected
    said = "the machine drifted by +3.0%, which may explain changes from -4.3% to +4.5%"
    assert {found[n].reason for n in (1, 4, 7)} == {said}
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
