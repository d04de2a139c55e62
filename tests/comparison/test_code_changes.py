"""What a comparison says of the code that ran: beside each changed time, and where the number of kernels differs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from making import Write, row

from kbench.comparison.compare import compare_results
from kbench.comparison.model import Comparison
from kbench.results.row import Row

ONE = "12345678-0000aaaa"
WIDER = "12345678-0000bbbb"
OTHER = "9abcdef0-0000aaaa"


def times(
    *ms: float, code: str | tuple[str, ...] = ONE, kernels: int | None = 1, mhz: float | None = 1980
) -> list[Row]:
    """A row for each session."""
    codes = (code,) * len(ms) if isinstance(code, str) else code
    return [row(ms=t, session=n, code=codes[n], kernels=kernels, sm_mhz=mhz) for n, t in enumerate(ms)]


@pytest.fixture
def compared(write: Write) -> Callable[..., Comparison]:
    def compared(old: Iterable[Row], new: Iterable[Row]) -> Comparison:
        return compare_results(write("old", old), write("new", new))

    return compared


BY_NAME = "(their machine code is not known)"
DIFFERENTLY = "launched differently (grid, block, shared memory, copies or fills)"
FAST = (1.0, 1.001, 1.002)
SLOW = (1.2, 1.201, 1.202)


@pytest.mark.parametrize(
    ("old", "new", "said", "code"),
    [
        (ONE, times(*SLOW), "same machine code and grid", "same"),
        (
            ONE,
            times(*SLOW, mhz=1485),
            "same machine code and grid, but the clock was 1485 MHz instead of 1980 MHz",
            "same",
        ),
        (ONE, times(*SLOW, code=WIDER), f"same machine code, {DIFFERENTLY}", "same"),
        (ONE, times(*SLOW, code=f"~{ONE}"), "other machine code", "other"),
        (ONE, times(*SLOW, code=(ONE, OTHER, ONE)), "the machine code differs between sessions", "mixed"),
        (ONE, times(*SLOW, code=OTHER, kernels=3), "3 kernels per call instead of 1; other machine code", "other"),
        (ONE, times(*SLOW, code="", kernels=None), "", None),
        (f"~{ONE}", times(*SLOW, code=f"~{ONE}"), f"kernels with the same names and grids {BY_NAME}", "same-names"),
        (
            f"~{ONE}",
            times(*SLOW, code=f"~{WIDER}"),
            f"kernels with the same names {BY_NAME}, {DIFFERENTLY}",
            "same-names",
        ),
    ],
)
def test_a_changed_time_says_whether_the_code_changed(
    compared: Callable[..., Comparison], old: str, new: list[Row], said: str, code: str | None
) -> None:
    """Kernels that are known only by name are not said to have the same code."""
    comparison = compared(times(*FAST, code=old), new)
    assert comparison.rows[0].verdict == "slower" and comparison.rows[0].reason == said
    assert json.loads(comparison.json())["rows"][0]["code"] == code


def test_an_unchanged_time_is_only_told_another_number_of_kernels(compared: Callable[..., Comparison]) -> None:
    old = times(*FAST)
    again = [replace(each, started_at="later") for each in times(*FAST, code=OTHER)]
    assert compared(old, again).rows[0].reason == ""
    more = [replace(each, started_at="later") for each in times(*FAST, code=OTHER, kernels=8)]
    comparison = compared(old, more)
    assert (comparison.rows[0].verdict, comparison.rows[0].reason) == ("same", "8 kernels per call instead of 1")
    sides: dict[str, Any] = json.loads(comparison.json())["rows"][0]
    assert (sides["old"]["kernels"], sides["new"]["kernels"]) == ([1], [8])
