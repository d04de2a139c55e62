"""The CUPTI timer on what a profiler has reported on an H200, and on a stand-in for a device and its profiler.
test_timer_cupti_on_a_device.py has a real one."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from in_process import measured

import kbench
from kbench.contract.provider import Unsupported
from kbench.measure import machine
from kbench.measure.timing import cupti
from kbench.measure.timing.cupti import (
    Activity,
    CuptiTimer,
    LostActivities,
    activities_of,
    call_times,
    record_activities,
)
from kbench.measure.timing.do_bench import BenchTimer
from kbench.measure.timing.timer import Samples

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


def test_only_what_was_launched_between_the_marks_is_timed() -> None:
    assert times(ONE_KERNEL) == [(9.0, 0.0)]


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
        ([], 1, "it shows 0 starts and 0 ends of calls, but there were 1 calls"),
        (TWO_STREAMS, 2, "it shows 1 starts and 1 ends of calls, but there were 2 calls"),
        (ONE_KERNEL[3:4] + ONE_KERNEL[6:], 1, "no kernel, copy or fill in any call"),
        ([(*each[:4], 0) for each in ONE_KERNEL], 1, "which launch"),
        ([(*each[:2], 0, 0, each[4]) for each in ONE_KERNEL], 1, "a kernel without its time"),
        ([(*each[:3], -1, each[4]) for each in ONE_KERNEL], 1, "a kernel without its time"),
    ],
)
def test_the_reason_says_what_is_missing(made: Sequence[Any], calls: int, said: str) -> None:
    with pytest.raises(LostActivities, match=said):
        times(made, calls)


class FakeDevice:
    """A stand-in for a device: kernels run one after another, and a profiler sees those that are launched while it records."""

    type, cache_bytes, accelerated = "cuda", None, True
    spin = None

    def __init__(self) -> None:
        self.now, self.launches, self.recorded = 1_000, 0, 0
        self.seen: list[Activity] = []
        self.loses: Callable[[int], bool] = lambda recording: False

    def launch(self, name: str, ns: int) -> None:
        self.launches += 1
        self.seen.append(Activity(name, self.now, self.now + ns, self.launches))
        self.now += ns + 500

    def empty_call(self) -> None:
        self.launch("noop", 600)

    def record(self, work: Callable[[], None]) -> list[Activity]:
        self.recorded, self.seen = self.recorded + 1, []
        work()
        return self.seen[:-1] if self.loses(self.recorded) else self.seen


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    found = FakeDevice()
    marks = SimpleNamespace(
        BEGIN_MARK=BEGIN,
        END_MARK=END,
        mark_begin=lambda: found.launch(BEGIN, 600),
        mark_end=lambda: found.launch(END, 600),
    )

    def do_bench(timer: Any, call: Callable[[], Any], launch_ms: float, before: Any, *budget: float) -> Samples:
        call()
        for _ in range(3):
            if before:
                before()
            found.launch("flush", 60_000)
            call()
        return Samples([0.1] * 3)

    monkeypatch.setattr(machine, "noop", marks, raising=False)
    monkeypatch.setitem(sys.modules, f"{machine.__name__}.noop", marks)
    monkeypatch.setattr(cupti, "record_activities", found.record)
    monkeypatch.setattr(cupti, "find_spec", lambda name: object())
    monkeypatch.setattr(torch.version, "hip", None, raising=False)
    monkeypatch.setattr(BenchTimer, "_samples", do_bench)
    return found


def timer(device: Any) -> CuptiTimer:
    return CuptiTimer(device, "cold")


def test_flush_and_new_inputs_are_not_part_of_the_time(device: FakeDevice) -> None:
    def call() -> None:
        device.launch("first", 2_000)
        device.launch("second", 3_000)

    sample = timer(device).ready([call], None, lambda: device.launch("copy of inputs", 7_000))
    found = sample(1, 5)
    assert found.ms == pytest.approx([(2.0 + 0.5 + 3.0) * 1e-3] * 3)
    assert found.gaps_ms == pytest.approx([0.5e-3] * 3)


def test_a_round_that_the_profiler_has_lost_a_part_of_is_measured_again(device: FakeDevice) -> None:
    sample = timer(device).ready([device.empty_call], None)
    device.loses = lambda recording: recording < 4  # the first of all shows that the profiler works
    assert sample(1, 5).ms == pytest.approx([0.6e-3] * 3)
    assert device.recorded == 4


def test_without_a_profiler_the_timer_is_refused_with_the_reason(device: FakeDevice) -> None:
    def fails(work: Callable[[], None]) -> list[Activity]:
        raise LostActivities("CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED")

    device.record = fails  # type: ignore[method-assign]
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Unsupported) as refusal:
        patch.setattr(cupti, "record_activities", fails)
        timer(device).ready([device.empty_call], None)
    assert str(refusal.value) == (
        "`timer: cupti` cannot use torch's profiler (CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED); another profiler may be "
        "attached to this process; use `timer: do_bench`"
    )


def test_a_machine_without_cupti_is_named(device: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeDevice, "type", "cpu")
    with pytest.raises(Unsupported, match="`timer: cupti` needs an NVIDIA device; this machine has cpu;"):
        timer(device).ready([device.empty_call], None)


@pytest.mark.parametrize("at", ["start", "stop"])
def test_a_failure_of_the_profiler_is_not_blamed_on_the_call(monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    def fails() -> None:
        raise AssertionError("No activities specified for the profiler")

    profile = SimpleNamespace(**{"start": lambda: None, "stop": lambda: None, "profiler": None, at: fails})
    monkeypatch.setattr(torch.profiler, "profile", lambda activities: profile)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    with pytest.raises(LostActivities, match="No activities specified"):
        record_activities(lambda: None)


def test_a_row_has_the_gaps_between_its_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(timer: BenchTimer, call: Callable[[], Any], *budget: Any) -> Samples:
        call()
        return Samples([0.02, 0.03, 0.04], [0.001, 0.002, 0.009])

    monkeypatch.setattr(BenchTimer, "_samples", read)
    [row] = measured(kbench.operator("softmax"), ["torch-native"], M=4, N=8, rounds=3).values()
    assert (row.ms, row.gap_ms) == (0.03, 0.002)
    monkeypatch.undo()
    [row] = measured(kbench.operator("softmax"), ["torch-native"], M=4, N=8).values()
    assert row.ms and row.gap_ms is None, "other timers do not see them"
