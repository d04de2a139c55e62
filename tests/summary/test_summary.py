"""The end of a run, as the person reads it: who won, whether that means anything, what to distrust."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from kbench import summary
from kbench.analysis import analyse
from kbench.results.case import Case
from kbench.results.row import Row
from kbench.results.vocabulary import Role
from kbench.text.numbers import ulps

CASE = Case("softmax", {"M": 4096, "N": 1024}, "float32")


def row(provider: str, ms: float, *, base: float = 0.1, **more: Any) -> Row:
    control = {"role": Role.CONTROL} if provider in ("copy", "empty", "repeat") else {}
    filled = {"case": CASE, "gbps": 33.5 / ms, "speedup": base / ms, "max_ulp": 1.0, "timer": "do_bench", **control}
    filled["round_ms"] = (ms,) * 5
    return Row(provider=provider, ms=ms, **(filled | more))


def at(n: int, rows: Sequence[Row], session: int = 0) -> list[Row]:
    return [replace(r, case=Case("softmax", {"M": 4096, "N": n}, "float32"), session=session) for r in rows]


def table(rows: Sequence[Row]) -> list[dict[str, str]]:
    made = summary.details_table(analyse(rows, "torch"))
    return [dict(zip(made.header, line, strict=True)) for line in made.rows]


def caveats(rows: Sequence[Row]) -> list[str]:
    return summary.caveats(analyse(rows, "torch"))


def test_where_rounds_disagree_about_the_faster_of_two_it_cannot_be_told() -> None:
    """2 % by the medians; but every round of either is of one of two kinds, and which is a matter of chance."""
    kinds = {"cuda": (68.7, 69.9, 69.8, 70.0, 69.0), "quack": (70.3, 68.6, 68.3, 70.2, 68.8)}
    bimodal = [row(name, sorted(us)[2] / 1e3, round_ms=tuple(t / 1e3 for t in us)) for name, us in kinds.items()]
    torch, exact = row("torch", 0.1, round_ms=(0.1,) * 5), row("repeat", 0.1)
    (line,) = table([torch, *bimodal, exact])
    assert (line["fastest"], line["vs torch"]) == ("quack ? cuda", "1.45x")
    steady = [row("cuda", 0.0698, round_ms=(0.0698,) * 5), row("quack", 0.0688, round_ms=(0.0688, 0.0689) * 2)]
    assert [line["fastest"] for line in table([torch, *steady, exact])] == ["quack"]
    together = [replace(r, round_ms=tuple(r.ms * drift for drift in (1, 1.1, 1.2, 1.3))) for r in steady]
    assert [line["fastest"] for line in table([torch, *together, exact])] == ["quack"], "round by round it always is"
    apart = [replace(r, session=session) for session, r in enumerate(bimodal)]
    assert [line["fastest"] for line in table([torch, *apart, exact])] == ["quack ? 2 others"], (
        "rounds of two sessions are no pairs"
    )


def test_the_floor_is_never_below_the_clock() -> None:
    exact = row("repeat", 0.004, base=0.004)
    (line,) = table([row("torch", 0.004, base=0.004), row("cuda", 0.003968, base=0.004), exact])  # one tick
    assert line["vs torch"] == "tie"
    (line,) = table([row("torch", 0.004, base=0.004), row("cuda", 0.0039, base=0.004), exact])  # three
    assert line["vs torch"] == "1.03x"
    (line,) = table(
        [
            row(name, ms, base=0.004, timer="graph")
            for name, ms in (("torch", 0.004), ("cuda", 0.00395), ("repeat", 0.004))
        ]
    )
    assert line["vs torch"] == "1.01x", "calls in a graph are timed together"


def test_a_noisy_case_does_not_blur_the_others() -> None:
    quiet = [r for n in range(99) for r in at(n, [row("torch", 0.1), row("cuda", 0.095), row("repeat", 0.1002)])]
    noisy = at(99, [row("torch", 0.1), row("cuda", 0.095), row("repeat", 0.11, flags=("noisy",))])
    assert [line["vs torch"] for line in table(quiet + noisy)] == ["1.05x"] * 99 + ["unclear"]
    assert "at most 0.2 % in 95 % of 100 cases" in caveats(quiet + noisy)[0]
    assert "at most 10.0 % in 1 case" in caveats(noisy)[0]


def test_flags_have_a_column_only_when_a_winner_has_some() -> None:
    torch = row("torch", 0.1, flags=("noisy",))
    (line,) = table([torch, row("cuda", 0.05), row("repeat", 0.1)])
    assert "flags" not in line
    rows = [torch, row("cuda", 0.05, flags=("overhead-bound", "noisy")), row("repeat", 0.1, flags=("throttled",))]
    (line,) = table(rows)
    assert line["flags"] == "overhead-bound, noisy"
    assert caveats(rows)[1:] == ["flags: 2 noisy, 1 overhead-bound (kbench explain noisy)"]


def test_an_axis_with_the_name_of_a_column_stays_in_a_narrow_table() -> None:
    axes = {"ulp": 1, "GB/s": 2}
    cases = [Case("softmax", axes | {"ulp": n}, "float32") for n in (1, 3)] + [
        Case("softmax", axes | {"GB/s": 4}, "float32")
    ]
    rows = [row(name, 0.1, case=case, max_ulp=None, gbps=None) for case in cases for name in ("torch", "cuda")]
    assert summary.details_table(analyse(rows, "torch"), 10).header[:2] == ("ulp", "GB/s")


def test_sessions_share_a_line_and_the_median_stands_for_each_provider() -> None:
    """One session in which `fast` was slow does not make `torch` the winner but costs the win; one where it was suspect
    makes `torch` the winner."""
    times = {"fast": (0.05, 0.2, 0.06), "torch": (0.1, 0.1, 0.1)}
    rows = [r for s in range(3) for r in at(64, [row(name, ms[s]) for name, ms in times.items()], s)]
    [line] = table(rows)
    assert (line["fastest"], line["us"]) == ("fast ? torch", "60.00")
    quick = [replace(r, ms=0.06, round_ms=(0.06,) * 5) if (r.provider, r.session) == ("fast", 1) else r for r in rows]
    assert [line["fastest"] for line in table(quick)] == ["fast"]
    suspect = [replace(r, flags=("suspect",)) if (r.provider, r.session) == ("fast", 0) else r for r in rows]
    [line] = table(suspect)
    assert line["fastest"] == "torch"
    assert "in 1 case" in caveats([*rows, *at(64, [row("repeat", 0.1)])])[0]


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), (0.0, "0.0"), (9.94, "9.9"), (9.96, "10"), (1234.5, "1234"), (1.65e37, "1.65e+37")]
)
def test_errors_below_a_million_are_written_without_exponents(value: float | None, text: str) -> None:
    assert ulps(value) == text
