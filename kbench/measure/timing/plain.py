"""do_bench as a script calls it: without a queue that is filled before the launch, and without rounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kbench.measure.machine.device import Device
from kbench.measure.timing.do_bench import BenchTimer

MOST_WARMUP_MS, MOST_REP_MS = 25.0, 50.0
"""A script may ask for seconds. This is enough to know what it would read."""


def plain_samples(
    device: Device,
    fn: Callable[[], Any],
    warmup_ms: float,
    rep_ms: float,
    before: Callable[[], None] = lambda: None,
    *,
    graph: bool = False,
) -> list[float]:
    """The samples, in ms, that a script reads. `before` runs before each call, untimed. With `graph` they are those of
    `do_bench_cudagraph`, which replays a graph and does not flush the cache; a host has no graphs, so there the cache is only
    left alone."""
    warmup_ms, rep_ms = min(warmup_ms, MOST_WARMUP_MS), min(max(rep_ms, 1.0), MOST_REP_MS)
    if not device.accelerated:
        return BenchTimer(device, "warm" if graph else "cold").ready([fn], None, before)(warmup_ms, rep_ms).ms
    import triton.testing

    if graph:
        before()
        times: list[float] = triton.testing.do_bench_cudagraph(fn, rep=rep_ms, return_mode="all")
        return times

    def cleared() -> Any:
        before()  # costs the host less than a microsecond, as in do_bench itself
        return fn()

    times = triton.testing.do_bench(cleared, warmup=warmup_ms, rep=rep_ms, return_mode="all")
    return times
