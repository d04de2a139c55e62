"""The clock of the host, which times where there is no device or no Triton, and how long a device is kept busy."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from in_process import measured, said

from kbench.contract.registry import operator
from kbench.measure.timing import do_bench
from kbench.measure.timing.host import flush_bytes
from kbench.measure.timing.timer import Samples

WORK_MS = 3.0


class Busy:
    """A device that, like a real one, takes a call at once and works on it later: until somebody waits for it."""

    accelerated = True
    cache_bytes = 1024
    torch_device = torch.device("cpu")

    def __init__(self) -> None:
        self.queued = 0

    def synchronize(self) -> None:
        time.sleep(self.queued * WORK_MS * 1e-3)
        self.queued = 0


def test_a_call_is_timed_to_the_end_of_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(do_bench, "find_spec", lambda name: None)
    device: Any = Busy()
    bench = do_bench.BenchTimer(device, "cold")

    def call() -> None:
        device.queued += 1

    samples = bench.ready([call], None)(1, 5).ms
    assert samples and min(samples) >= WORK_MS


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
    monkeypatch.setattr(do_bench.BenchTimer, "_samples", lambda *arguments: Samples([0.0, 0.0, 0.0]))
    matmul = operator("matmul")
    row = measured(matmul, ["torch-native"], M=4, N=3, K=0, mode="backward")["torch-native"]
    assert said(row).startswith("checked correct, but not timed: a call takes less than a step of the timer's clock")
    assert (row.ms, row.round_ms, row.max_ulp) == (None, (), 0.0)
