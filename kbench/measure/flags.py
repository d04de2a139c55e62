"""Flags: reasons to distrust a row that is otherwise ok. `kbench explain FLAG` says what to do about each.

Every threshold has its reason beside it; `kbench explain` has them for readers.
"""

from __future__ import annotations

import math
from dataclasses import replace

from kbench.measure.contender import Contender
from kbench.measure.experiment import Experiment
from kbench.results.row import Row
from kbench.results.timers import TICK_MS, timer_kind
from kbench.results.vocabulary import Control, Flag

OVERHEAD_SHARE = 0.20
"""If the `empty` control takes more than this share of a time, the time depends too much on the timer: a kernel that is twice
as fast as another then looks at most 1.7 times as fast."""

ROUND_SPREAD = 0.03
"""(max - min) / median of the round medians. On an H200, 95 % of the rows of 40 us and more stay within 1 %. Beyond 3 % there
was some disturbance, and `kbench compare` accepts no smaller change between single sessions."""

ROUND_TICKS = 4
"""A spread of this many ticks is rounding, however large its share of a very short time is: two ticks at each end."""

SAMPLE_SPREAD = 0.10
"""(p80 - p20) / median of the samples. Above this, the kernel does not have a single speed, which the median would hide."""

SAMPLE_JITTER_MS = 2e-3
"""Samples of any length may differ by this much. On an H200, p80 - p20 is about 1 us for kernels from 4 us to 100 us, and is
due to the events. So SAMPLE_SPREAD decides from 20 us on."""

MARGIN = 1.02
"""A time may beat the physical limit by this factor before it is `suspect`: room for rounding and for memory clocks."""

COPY_SHARE = 0.8
"""An unknown theoretical bandwidth is taken as the measured copy bandwidth divided by this. The copy of an H200 reaches 0.86
of the theoretical bandwidth, and a kernel that mostly reads comes closer to it than a copy."""

HOST_COPY_SHARE = 0.5
"""The same on the host, where a copy may move three bytes per two that count, and other programs use the memory too."""

COMPUTE_MARGIN = 3.0
"""A time may beat the compute ceiling by this factor before it is `suspect`. The ceiling is a measured product: on an H200, in
bfloat16, two thirds to four fifths of the peak. Consumer GPUs add up twice as fast in float16."""

SHORTER_MARGIN = 12.0
"""The same where a provider may compute in a shorter format than torch does. A float32 kernel may use tensor cores (TF32, or
several products of shorter numbers), with 7.4 times the float32 rate of an H200. An input of a shorter dtype than the case
(fp8, packed fp4) allows products with 2 or 4 times the rate. Of each rate, a measured product reaches two thirds."""

EVENT_SLACK_MS = 1e-3
"""How far `ms` minus `empty` may fall short of the kernel's own time. Both come from events, which tick every 32 ns, and
which cost one kernel some tenths of a us more than another."""


def flagged(row: Row, contender: Contender, experiment: Experiment, empty_ms: float | None) -> Row:
    """The row with its flags, in the order of `Flag`, if it has a time. The reason of a provider then also says why it is
    suspect, or its check weak. What is not known raises no flag.

    `empty_ms` is the time of the case's `empty` control; None if it is not known.
    """
    if row.ms is None:
        return row
    if row.control is Control.EMPTY:
        empty_ms = None
    provider, suspect = row.of_provider, suspicion(row, experiment, empty_ms)
    weakness = (experiment.weakness or contender.accuracy.remark) if provider else ""
    raised = {
        Flag.SUSPECT: suspect,
        Flag.UNCHECKED: provider and experiment.unchecked,
        Flag.SAME_OPS: contender.runs_operators_of(experiment.baseline),
        Flag.WEAK_CHECK: weakness,
        Flag.EAGER: contender.compiled.uncompiled,
        Flag.DYNAMIC_SHAPES: contender.compiled.dynamic,
        Flag.HOST_BOUND: host_bound(row, experiment),
        Flag.OVERHEAD_BOUND: overhead_bound(row, empty_ms),
        Flag.L2_RESIDENT: l2_resident(row, experiment),
        Flag.THROTTLED: throttled(row),
        Flag.NOISY: noisy(row),
        Flag.ALTERED_STATE: contender.altered,
    }
    reason = "; ".join(filter(None, (suspect, weakness, row.reason))) if provider else row.reason
    return replace(row, flags=tuple(flag for flag in Flag if raised[flag]), reason=reason)


def suspicion(row: Row, experiment: Experiment, empty_ms: float | None) -> str:
    """Why a row is faster than it can be; empty if it is not."""
    assert row.ms
    # the longest that the kernel itself can have taken
    kernel_ms = row.ms - (empty_ms or 0.0) + EVENT_SLACK_MS
    most_gbps = _most_gbps(experiment)
    most_tflops = (experiment.ceiling_tflops or math.inf) * (SHORTER_MARGIN if experiment.shorter else COMPUTE_MARGIN)
    flops = (experiment.work.flops or 0) if row.tflops else 0
    # faster than the memory allows, by more than the cache can explain
    if (row.gbps or 0.0) > most_gbps and kernel_ms < uncached_bytes(row, experiment) / most_gbps * 1e-6:
        work, speed = f"{_bytes(row, experiment):,} bytes", f"{row.gbps:,.0f} GB/s"
        limit, too_many, option = f"the memory moves at most {most_gbps:,.0f} GB/s", "too many bytes", "bytes="
    # faster than the best large matrix product, by more than a better kernel can explain
    elif max(row.ms, kernel_ms) < flops / most_tflops * 1e-9:
        work, speed = f"{flops:,} operations", f"{flops / row.ms * 1e-9:,.0f} TFLOP/s"
        limit, too_many, option = f"the device computes at most {most_tflops:,.0f} TFLOP/s", "too many", "flops="
    else:
        return ""
    counts = f"the script counts {too_many}" if experiment.unchecked else f"the operator counts {too_many} ({option})"
    undone = "either the timed call does not do the work, or"
    return f"{work} in {row.ms:.4g} ms are {speed}, but {limit}; {undone} {counts}"


def _bytes(row: Row, experiment: Experiment) -> int:
    """The algorithmic bytes of a call; none for the control `empty`."""
    return experiment.work.call_bytes if row.gbps else 0


def _most_gbps(experiment: Experiment) -> float:
    """The highest speed of the memory that is possible; infinite if it is not known."""
    if peak_gbps := experiment.instruments.telemetry.peak_gbps:
        return MARGIN * peak_gbps
    if experiment.ceiling_gbps:
        return MARGIN * experiment.ceiling_gbps / (COPY_SHARE if experiment.device.accelerated else HOST_COPY_SHARE)
    return math.inf


def uncached_bytes(row: Row, experiment: Experiment) -> float:
    """The bytes that must cross the memory bus within the timed call.

    With a cold cache all reads must, but the writes (taken as half of the bytes) may still be in the cache when the call
    ends. With a warm cache all bytes may be in it. The same holds on a host, because no flush is sure to empty its caches.
    """
    count = _bytes(row, experiment)
    cached_bytes = count / 2 if experiment.cold and experiment.device.accelerated else count
    if experiment.cache_bytes is not None:
        cached_bytes = min(cached_bytes, experiment.cache_bytes)
    return count - cached_bytes


def host_bound(row: Row, experiment: Experiment) -> bool:
    """The host needs longer for a launch than the device can be kept busy, so the device may have waited between the events.

    A replayed graph needs no launches. On the host, a launch is the work itself.
    """
    launches = experiment.device.accelerated and timer_kind(row.timer).launches
    return launches and row.launch_ms is not None and row.launch_ms > experiment.timer.prefill_ms


def overhead_bound(row: Row, empty_ms: float | None) -> bool:
    return timer_kind(row.timer).adds and empty_ms is not None and empty_ms > OVERHEAD_SHARE * (row.ms or 0.0)


def l2_resident(row: Row, experiment: Experiment) -> bool:
    """All bytes of a call fit into the last-level cache, and nothing displaced them before the call. A host says nothing: no
    flush is sure to empty its caches, and calls are warm by default."""
    if not experiment.device.accelerated or experiment.cold or experiment.cache_bytes is None:
        return False
    return _bytes(row, experiment) <= experiment.cache_bytes


def throttled(row: Row) -> bool:
    """The device lowered its clocks for a reason other than being idle."""
    return any(reason not in ("", "idle") for reason in row.throttle.split(";"))


def noisy(row: Row) -> bool:
    assert row.ms is not None and row.ms_p20 is not None and row.ms_p80 is not None
    rounds = max(row.round_ms) - min(row.round_ms) if row.round_ms else 0.0
    if rounds > max(ROUND_SPREAD * row.ms, ROUND_TICKS * TICK_MS):
        return True
    return row.ms_p80 - row.ms_p20 > max(SAMPLE_SPREAD * row.ms, SAMPLE_JITTER_MS)
