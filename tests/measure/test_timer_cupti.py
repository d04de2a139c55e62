"""The CUPTI timer on what a profiler has reported on an H200, and on a stand-in for a device and its profiler.
test_timer_cupti_on_a_device.py has a real one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kbench.measure.timing.cupti import LostActivities, activities_of, call_times

BEGIN, END = "kbench_call_begins", "kbench_call_ends"

CUDA, CPU = torch.autograd.DeviceType.CUDA, torch.autograd.DeviceType.CPU

ONE_KERNEL = [
    (CPU, "cudaLaunchKernel", 1_000, 5_000, 11),
    (CUDA, "void at::native::FillFunctor<int>(int)", 10_000, 60_000, 11),  # the flush
    (CUDA, "spin_kernel(long)", 71_000, 300_000, 12),
    (CUDA, BEGIN, 372_000, 600, 13),
    (CPU, "cudaLaunchKernel", 20_000, 5_000, 14),
    (
        CUDA,
        "void at::native::FillFunctor<int>(int)",
        373_000,
        9_000,
        14,
    ),  # what a call launches may be named like the flush
    (CUDA, END, 383_000, 600, 15),
]
"""Events of one call, in the form in which torch.profiler gives them: where, name, start, duration, correlation ID."""

RECORDED: dict[str, list[tuple[Any, str, int, int, int, int]]] = {
    found["call"]: [(getattr(torch.autograd.DeviceType, where), *rest) for where, *rest in found["events"]]
    for found in map(json.loads, Path(__file__).with_name("h200.profiler.jsonl").read_text().splitlines())
}
"""What torch.profiler (torch 2.11, CUDA 13) reported on an NVIDIA H200 of two calls each, with a spin before and a mark on
either side: where, the first 70 characters of the name, start, duration, correlation ID, stream.

    one      torch.softmax
    several  a softmax of five operators
    others   a fill, an operator on another stream, and a copy to the host
"""

TWO_STREAMS = [
    (CUDA, END, 60_000, 600, 40),
    (CUDA, BEGIN, 1_000, 600, 30),
    (CUDA, "Memset (Device)", 10_000, 5_000, 31),
    (CUDA, "second, beside the third", 20_000, 20_000, 32),
    (CUDA, "third", 30_000, 20_000, 33),
    (CUDA, "Memcpy DtoH (Device -> Pageable)", 55_000, 1_000, 34),
]


def events(made: Sequence[tuple[Any, str, int, int, int]]) -> list[Any]:
    return [
        SimpleNamespace(
            device_type=lambda e=e: e[0], name=lambda e=e: e[1], start_ns=lambda e=e: e[2],
            duration_ns=lambda e=e: e[3], correlation_id=lambda e=e: e[4],
        )
        for e in made
    ]  # fmt: skip


def times(made: Sequence[Any], calls: int = 1) -> list[tuple[float, float]]:
    """The time of each call and the gaps in it, in us."""
    samples = call_times(activities_of(events(made)), BEGIN, END, calls=calls, timed=calls)
    return [
        (pytest.approx(ms * 1e3), pytest.approx(gap * 1e3)) for ms, gap in zip(samples.ms, samples.gaps_ms, strict=True)
    ]


@pytest.mark.parametrize(
    ("call", "spans_and_gaps"),
    [
        ("one", [(8.673, 0.0), (8.672, 0.0)]),
        ("several", [(49.664, 4.832), (49.247, 4.032)]),
        ("others", [(325.308, 9.728), (324.157, 8.992)]),
    ],
)
def test_a_recorded_call_has_the_time_of_all_its_kernels_and_the_gaps_between_them(
    call: str, spans_and_gaps: list[tuple[float, float]]
) -> None:
    assert times([each[:5] for each in RECORDED[call]], calls=2) == spans_and_gaps


@pytest.mark.parametrize("call", RECORDED)
def test_a_recording_that_lacks_any_of_its_activities_is_no_time(call: str) -> None:
    made = [each[:5] for each in RECORDED[call]]
    lost = [place for place, each in enumerate(made) if each[0] == CUDA and "spin_kernel" not in each[1]]
    for place in lost:
        with pytest.raises(LostActivities):
            times([*made[:place], *made[place + 1 :]], calls=2)


def test_the_time_is_from_the_first_start_to_the_last_end_on_all_streams() -> None:
    [(span_us, gap_us)] = times(TWO_STREAMS)
    assert span_us == 56.0 - 10.0, "copies and fills count, and so do the gaps"
    assert gap_us == 5.0 + 5.0, "in which none of them ran"


def test_the_launch_decides_and_not_the_moment() -> None:
    """Work on another stream may run at any moment."""
    [(span_us, _)] = times([*TWO_STREAMS, (CUDA, "launched after the call", 12_000, 90_000, 41)])
    assert span_us == 46.0
    [(span_us, _)] = times([*TWO_STREAMS, (CUDA, "launched by the call, runs before the mark", 500, 100, 35)])
    assert span_us == 55.5


@pytest.mark.parametrize(
    ("made", "calls", "said"),
    [
        (TWO_STREAMS, 2, "it shows 1 starts and 1 ends of calls, but there were 2 calls"),
        (ONE_KERNEL[3:4] + ONE_KERNEL[6:], 1, "no kernel, copy or fill in any call"),
        ([(*each[:4], 0) for each in ONE_KERNEL], 1, "which launch"),
        ([(*each[:2], 0, 0, each[4]) for each in ONE_KERNEL], 1, "a kernel without its time"),
    ],
)
def test_the_reason_says_what_is_missing(made: Sequence[Any], calls: int, said: str) -> None:
    with pytest.raises(LostActivities, match=said):
        times(made, calls)
