"""The end of a run, as the person reads it: who won, whether that means anything, what to distrust."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kbench.analysis import analyse
from kbench.results.case import Case
from kbench.results.row import Row
from kbench.results.vocabulary import Role
from kbench.summary import sentences, tables

CASE = Case("softmax", {"M": 4096, "N": 1024}, "float32")


def row(provider: str, ms: float, *, base: float = 0.1, **more: Any) -> Row:
    control = {"role": Role.CONTROL} if provider in ("copy", "empty", "repeat") else {}
    filled = {"case": CASE, "gbps": 33.5 / ms, "speedup": base / ms, "max_ulp": 1.0, "timer": "do_bench", **control}
    filled["round_ms"] = (ms,) * 5
    return Row(provider=provider, ms=ms, **(filled | more))


def at(n: int, rows: Sequence[Row], session: int = 0) -> list[Row]:
    return [replace(r, case=Case("softmax", {"M": 4096, "N": n}, "float32"), session=session) for r in rows]


def table(rows: Sequence[Row]) -> list[dict[str, str]]:
    made = tables.details_table(analyse(rows, "torch"))
    return [dict(zip(made.header, line, strict=True)) for line in made.rows]


def caveats(rows: Sequence[Row]) -> list[str]:
    return sentences.caveats(analyse(rows, "torch"))


def test_the_floor_is_never_below_the_clock() -> None:
    exact = row("repeat", 0.004, base=0.004)
    (line,) = table([row("torch", 0.004, base=0.004), row("cuda", 0.003968, base=0.004), exact])  # one tick
    assert line["vs torch"] == "tie"
    (line,) = table([row("torch", 0.004, base=0.004), row("cuda", 0.0039, base=0.004), exact])  # three
    assert line["vs torch"] == "1.03x"
    in_graph = {"torch": 0.004, "cuda": 0.00395, "repeat": 0.004}
    (line,) = table([row(name, ms, base=0.004, timer="graph") for name, ms in in_graph.items()])
    assert line["vs torch"] == "1.01x", "calls in a graph are timed together"


def test_a_noisy_case_does_not_blur_the_others() -> None:
    quiet = [r for n in range(99) for r in at(n, [row("torch", 0.1), row("cuda", 0.095), row("repeat", 0.1002)])]
    noisy = at(99, [row("torch", 0.1), row("cuda", 0.095), row("repeat", 0.11, flags=("noisy",))])
    assert [line["vs torch"] for line in table(quiet + noisy)] == ["1.05x"] * 99 + ["unclear"]
    assert "at most 0.2 % in 95 % of 100 cases" in caveats(quiet + noisy)[0]
    assert "at most 10.0 % in 1 case" in caveats(noisy)[0]


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
    assert [line["fastest"] for line in table(suspect)] == ["torch"]
    assert "in 1 case" in caveats([*rows, *at(64, [row("repeat", 0.1)])])[0]
