"""The timers: what they read on a host and for no work, and how long a device is kept busy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from in_process import matrices, measured, said

import kbench
from kbench.contract.registry import operator
from kbench.measure.machine.device import Device
from kbench.measure.timing import do_bench
from kbench.measure.timing.do_bench import BenchTimer, flush_bytes
from kbench.measure.timing.graph import GraphTimer
from kbench.measure.timing.timer import Samples


@pytest.mark.parametrize(("launch_ms", "flush_ms"), [(0.01, 0.06), (0.3, 1.0), (50.0, 0.06)])
def test_flush_and_spin_last_three_launches(launch_ms: float, flush_ms: float) -> None:
    spin_ms = do_bench.spin_ms(launch_ms, flush_ms)
    assert do_bench.PREFILL_MS <= spin_ms <= do_bench.MAX_PREFILL_MS
    together = pytest.approx(3 * launch_ms)
    assert spin_ms in (do_bench.PREFILL_MS, do_bench.MAX_PREFILL_MS) or spin_ms + flush_ms == together
    assert spin_ms == do_bench.MAX_PREFILL_MS or spin_ms + flush_ms >= 3 * launch_ms - 1e-9


@pytest.mark.parametrize(("accelerated", "cache_mib", "flush_mib"), [(False, 480, 16), (False, 4, 8), (True, 60, 120)])
def test_a_host_with_a_large_cache_flushes_a_part_of_it(accelerated: bool, cache_mib: int, flush_mib: int) -> None:
    device: Any = SimpleNamespace(accelerated=accelerated, cache_bytes=cache_mib * 2**20)
    assert flush_bytes(device) == flush_mib * 2**20


def test_a_call_that_takes_no_time_that_the_clock_can_see_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a device, a call that launches nothing: the gradients of a matrix product over nothing are empty."""
    monkeypatch.setattr(BenchTimer, "ready", lambda *arguments: lambda *budget: Samples([0.0, 0.0, 0.0]))
    matmul = operator("matmul")
    row = measured(matmul, ["torch-native"], M=4, N=3, K=0, mode="backward")["torch-native"]
    assert said(row).startswith("checked correct, but not timed: a call takes less than a step of the timer's clock")
    assert (row.ms, row.round_ms, row.max_ulp) == (None, (), 0.0)
    assert kbench.do_bench(lambda: None) == 0.0


EVENTS_MS, KERNEL_MS, GAP_MS = 4e-3, 0.6e-3, 0.9e-3


def device(accelerated: bool) -> Any:
    """A device that counts the empty kernels it is given."""
    counting = SimpleNamespace(accelerated=accelerated, launched=0)
    counting.empty_call = lambda: setattr(counting, "launched", counting.launched + 1)
    return counting


@pytest.mark.parametrize("accelerated, own_ms", [(True, (KERNEL_MS + GAP_MS) / 2), (False, 0.0)])
def test_the_empty_kernel_itself_is_not_what_events_cost(
    monkeypatch: pytest.MonkeyPatch, accelerated: bool, own_ms: float
) -> None:
    """Events read what they cost, every kernel that is launched, and the gaps between; some readings are late. Half of
    what a second kernel adds is taken for its own time."""

    def read(timer: BenchTimer, runs: Any, *budget: Any) -> Samples:
        timer.device.launched = 0
        runs[0]()
        kernels = timer.device.launched
        return Samples(
            [EVENTS_MS + kernels * KERNEL_MS + (kernels - 1) * GAP_MS + late for late in (0.0, 0.0, 0.0, 5e-3)]
        )

    monkeypatch.setattr(BenchTimer, "ready", lambda timer, runs, launch_ms: lambda *budget: read(timer, runs, *budget))
    samples = BenchTimer(device(accelerated), "cold").empty()(1, 5).ms
    expected = EVENTS_MS + KERNEL_MS - own_ms
    assert samples == pytest.approx([expected] * 3 + [expected + 5e-3])


@pytest.mark.gpu
def test_on_a_device_it_times_calls_and_refuses_what_it_cannot_capture() -> None:
    twice = matrices("graph-waits", lambda x: x * 2)
    twice.provider("honest")(lambda x: x * 2)
    twice.provider("waits")(lambda x: x * 2 if x.sum().item() < 1e30 else x.clone())

    @twice.provider("default-stream")
    def on_the_default_stream(x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        with torch.cuda.stream(torch.cuda.default_stream()):  # as `<<<grid, block>>>` without a stream
            return torch.mul(x, 2, out=y)

    events, graph = (
        measured(twice, timer=timer, cache="cold", rounds=3, rep_ms=20, dtype="float32", M=8192, N=8192)
        for timer in ("do_bench", "graph")
    )
    assert graph["waits"].status == "unsupported"
    assert "cannot be captured in a CUDA graph" in graph["waits"].reason
    assert said(graph["default-stream"]).startswith("unsupported launches nothing on torch's current stream")
    assert events["default-stream"].ms and events["waits"].ms and events["honest"].ms and graph["honest"].ms


@pytest.mark.gpu
@pytest.mark.parametrize(("mode", "cache", "timer"), [("full", "cold", "do_bench"), ("backward", "warm", "graph")])
def test_gradients_are_timed_on_a_device(mode: str, cache: str, timer: str) -> None:
    settings = {"mode": mode, "cache": cache, "timer": timer}
    [row] = measured(operator("softmax"), ["torch-native"], M=512, N=1024, **settings).values()
    assert (said(row), row.timer) == ("ok", timer)


@pytest.mark.gpu
@pytest.mark.parametrize("timer", [BenchTimer, GraphTimer])
def test_what_kernels_asked_the_cache_to_keep_is_let_go_before_every_cold_sample(timer: Any) -> None:
    device, calls = Device(), list[str]()
    forget = device.drop_kept_lines
    device.__dict__["drop_kept_lines"] = lambda: calls.append("forgets") or forget()
    x = torch.zeros(1024, device=device.torch_device)
    samples = timer(device, "cold").ready([lambda: x + 1] * 2, 0.05)(1, 1)
    assert len(calls) >= len(samples.ms)
