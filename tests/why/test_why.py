"""`kbench why`: the first sentence names the reason, with its number. The rows and launches are made up for an H200."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from making import row

from kbench.execute.writer import Writer
from kbench.launches.launched_call import DeviceLimits, Kernel, KernelLaunch, LaunchedCall
from kbench.protocol import CallRecorded
from kbench.results.row import Row
from kbench.why.facts import find_facts
from kbench.why.reasons import find_reasons

H200 = DeviceLimits(132, 2048, 65536, 233472, 32, 1024)
NAME = "NVIDIA H200"
KERNEL = Kernel("rows(float*)", "_Z4rowsPf", 32, 0, 0, "aaaaaaaaaaaa", "machine code")
LAUNCH = KernelLaunch(KERNEL, (132 * 16, 1, 1), (128, 1, 1), 0, 16)
FULL = LaunchedCall((LAUNCH,))


def launched(blocks_per_sm: int = 16, times: int = 1, grid: int = 132 * 16, **kernel: int) -> LaunchedCall:
    made = replace(
        LAUNCH, kernel=replace(KERNEL, **kernel), grid=(grid, 1, 1), blocks_per_sm=blocks_per_sm, times=times
    )
    return LaunchedCall((made,))


MADE: dict[str, Any] = {
    "ms": 0.1, "gbps": 1342.17728, "sol": 0.3, "copy_fraction": 0.32, "launch_ms": 0.01, "sm_mhz": 1980.0, "kernels": 1,
    "round_ms": (0.1,), "samples": 100, "power_w": 300.0,
}  # fmt: skip


def timed(call: LaunchedCall | None = FULL, **fields: Any) -> Row:
    known = {"kernels": call.kernels, "code": call.code} if call else {"kernels": None, "code": ""}
    return row(4096, **{**MADE, **known, **fields})


Write = Callable[..., Path]


@pytest.fixture
def results(tmp_path: Path) -> Write:
    def results(*rows: Row, calls: tuple[LaunchedCall, ...] = (FULL,)) -> Path:
        path = tmp_path / "softmax.csv"
        Writer(path, ("M", "N")).begin().write(rows, [CallRecorded(call, H200) for call in calls], NAME)
        return path

    return results


def reasons(path: Path) -> list[tuple[str, str]]:
    [facts], _ = find_facts(path, "")
    return [(each.kind, each.sentence) for each in find_reasons(facts)]


GAPS = {"timer": "cupti", "gap_ms": 0.007, "sol": 0.1}


@pytest.mark.parametrize(
    ("call", "fields", "kind", "said"),
    [
        (FULL, {}, "inside-the-kernel", "and 32% of the speed of a copy of the same bytes, and its launches do not"),
        (launched(4, registers=255, local_bytes=512), {}, "spills", "512 bytes of each thread in local memory"),
        (launched(1, static_shared_bytes=200_000), {}, "low-occupancy", "shared memory allow no more blocks"),
        (launched(times=8), GAPS, "many-kernels", "8 kernels. In 7.00 of the 100.0 us none of them runs, and what one"),
        (launched(grid=132 * 16 + 1), {}, "last-wave", "has 2113 blocks, and the device holds 2112 at a time"),
        (None, {}, "unknown", "What its calls launch is not known"),
    ],
)
def test_the_first_sentence_names_the_reason_with_its_number(
    results: Write, call: LaunchedCall | None, fields: dict[str, Any], kind: str, said: str
) -> None:
    path = results(timed(call, **fields), calls=(call,) if call else ())
    first, *_ = reasons(path)
    assert first[0] == kind and said in first[1], reasons(path)


def test_a_clock_below_the_highest_is_a_reason(results: Write) -> None:
    path = results(timed(sm_mhz=990.0))
    path.with_suffix(".env.json").write_text(json.dumps({"limits": {"max_sm_mhz": 1980.0}}))
    assert reasons(path)[0] == ("slow-clock", "The device ran at 990 MHz. Its highest clock is 1980 MHz.")


def test_the_time_of_the_timer_itself_is_a_reason(results: Write) -> None:
    path = results(timed(ms=0.02), row(4096, 0.008, "empty", role="control"))
    said = "Of the 20.00 us, the timer itself takes about 8.00 us (control empty)."
    assert ("timer-overhead", said) in reasons(path), reasons(path)


def test_a_kernel_at_full_speed_is_still_told_that_the_host_is_slower(results: Write) -> None:
    several = launched(times=8)
    found = reasons(results(timed(several, sol=0.97, launch_ms=0.15), calls=(several,)))
    assert [kind for kind, _ in found] == ["at-speed", "host-bound"], "and not that it has several kernels"
    found = reasons(results(timed(sol=0.97, launch_ms=1.5)))
    assert [kind for kind, _ in found] == ["host-bound", "at-speed"], "it would wait most of the time"
    found = reasons(results(timed(sol=9.7, flags=("suspect",), reason="too many bytes")))
    assert found == [("no-time", "Its time is suspect: too many bytes.")]
