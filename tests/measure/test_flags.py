"""Flags say what to distrust, and nothing that was honestly measured is called impossible."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import making
import pytest

from kbench.measure.contender import Contender
from kbench.measure.correctness.definition import Work
from kbench.measure.experiment import Experiment
from kbench.measure.flags import flagged
from kbench.measure.rows import make_rows
from kbench.results.case import Case
from kbench.results.reader import read_results
from kbench.results.row import Row
from kbench.results.vocabulary import Status

H200 = Path(__file__).resolve().parents[2] / "results" / "h200"
MIB = 1024**2
Evidence = tuple[Row, Experiment, float | None]


def context(
    *,
    accelerated: bool = True,
    cache_bytes: int | None = 60 * MIB,
    cold: bool = True,
    prefill_ms: float = 10.0,
    call_bytes: int = 0,
    flops: int | None = None,
    peak_gbps: float | None = 4917.0,
    **fields: Any,
) -> Any:
    """A cold case on something like an H200."""
    experiment: Any = object.__new__(Experiment)
    experiment.device = SimpleNamespace(accelerated=accelerated, cache_bytes=cache_bytes)
    experiment.timer = SimpleNamespace(cold=lambda call_bytes: cold, prefill_ms=prefill_ms, name="do_bench")
    experiment.instruments = SimpleNamespace(telemetry=SimpleNamespace(peak_gbps=peak_gbps))
    experiment.work, experiment.ceiling_gbps = Work(call_bytes, flops), 4150.0
    experiment.columns = lambda: {"case": Case("softmax", {"M": 4096, "N": 256}, "float32")}
    vars(experiment).update(fields)
    return experiment


OF_CASE = {*signature(context).parameters, *vars(Experiment)}


def evidence(ms: float, mb: float, empty_ms: float | None = 0.0036, **more: Any) -> Evidence:
    """A quiet do_bench row that moves so many MB (1e6 bytes) in so many ms. `more` are fields of the row or of the case."""
    count = round(mb * 1e6)
    of_case = {name: more.pop(name) for name in OF_CASE & more.keys()}
    quiet = {"round_ms": (ms, ms * 1.004, ms * 0.998), "ms_p20": ms - 5e-4, "ms_p80": ms + 5e-4, "launch_ms": 0.03}
    tflops = of_case["flops"] / ms * 1e-9 if of_case.get("flops") else None
    row = making.row(ms=ms, gbps=count / ms * 1e-6, tflops=tflops, **{**quiet, **more})
    return row, context(call_bytes=count, **of_case), empty_ms


def flags(row: Row, of_case: Experiment, empty_ms: float | None) -> tuple[str, ...]:
    return flagged(row, Contender(0, row.provider, {}), of_case, empty_ms).flags


def test_a_quiet_row_has_no_flags() -> None:
    assert flags(*evidence(0.1, 415)) == ()


def test_nobody_knows_whether_a_closure_that_takes_no_time_is_correct() -> None:
    [row] = make_rows(context(call_bytes=0, unchecked=True), [Contender(0, "mine", {}, rounds=[[0.0, 0.0]])])
    assert (row.status, row.ms) == (Status.UNSUPPORTED, None) and "correct" not in row.reason


def test_what_is_not_known_raises_no_flag() -> None:
    nothing = {"cache_bytes": None, "ceiling_gbps": None, "peak_gbps": None, "launch_ms": None, "round_ms": ()}
    assert flags(*evidence(1e-4, 415, None, ms_p20=1e-4, ms_p80=1e-4, **nothing)) == ()


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        pytest.param(evidence(0.0036, 33.5), True, id="left on a side stream: as fast as nothing"),
        pytest.param(evidence(0.05, 415), True, id="8.3 TB/s from memory"),
        pytest.param(evidence(0.083, 415), False, id="just above the peak, within the margins"),
        pytest.param(evidence(0.0036, 17), False, id="as fast as nothing, but no more GB/s than there can be"),
        pytest.param(evidence(0.0011, 6, empty_ms=0.001, timer="graph"), False, id="within what empty is good for"),
        pytest.param(evidence(0.02, 120), False, id="cold, and half of it may still be dirty in the cache"),
        pytest.param(evidence(0.01, 60, cold=False), False, id="warm: served by the cache"),
        pytest.param(evidence(0.01, 120, cold=False), True, id="warm: but the cache is not as large"),
        pytest.param(evidence(0.5, 8, accelerated=False, ceiling_gbps=10.0, peak_gbps=None), False, id="host caches"),
        pytest.param(evidence(1.0, 400, accelerated=False, ceiling_gbps=10.0, peak_gbps=None), True, id="a host"),
    ],
)
def test_suspect_is_what_memory_and_cache_cannot_explain(row: Evidence, expected: bool) -> None:
    assert ("suspect" in flags(*row)) is expected


@pytest.mark.parametrize(
    ("ms", "more", "expected"),
    [
        pytest.param(0.51, {}, False, id="within three times the ceiling"),
        pytest.param(0.48, {}, True, id="beyond it"),
        pytest.param(0.48, {"shorter": True}, False, id="float32 on tensor cores, or inputs in fp4"),
        pytest.param(0.12, {"shorter": True}, True, id="faster than these"),
        pytest.param(0.004, {"ceiling_tflops": None}, False, id="no ceiling"),
        pytest.param(0.004, {"flops": 5 * 10**6}, False, id="tiny: the time is the timer's"),
    ],
)
def test_suspect_is_what_arithmetic_cannot_explain(ms: float, more: dict[str, object], expected: bool) -> None:
    product = {"flops": 2 * 8192**3, "ceiling_tflops": 733.0, "round_ms": (ms, ms)}
    assert ("suspect" in flags(*evidence(ms, 1, **(product | more)))) is expected


def test_suspect_stands_first() -> None:
    row = evidence(0.0036, 415, throttle="power-cap", launch_ms=11.0)
    assert flags(*row) == ("suspect", "host-bound", "overhead-bound", "throttled")


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"launch_ms": 9.9}, False),
        ({"launch_ms": 10.1}, True),
        ({"launch_ms": 0.05, "prefill_ms": 0.0}, True),
        ({"launch_ms": 10.1, "timer": "graph"}, False),
    ],
)
def test_host_bound_is_a_launch_that_outlasts_the_prefill(more: dict[str, object], expected: bool) -> None:
    assert ("host-bound" in flags(*evidence(0.1, 415, **more))) is expected


def test_overhead_bound_is_a_fifth_of_the_time() -> None:
    assert "overhead-bound" in flags(*evidence(0.0175, 8))
    assert "overhead-bound" not in flags(*evidence(0.0185, 8))
    # CUPTI adds nothing to a kernel, and `empty` is what an empty kernel takes
    assert "overhead-bound" not in flags(*evidence(0.0175, 8, timer="cupti"))


def test_l2_resident_is_what_fits_and_was_not_displaced() -> None:
    assert "l2-resident" in flags(*evidence(0.1, 60, cold=False))
    assert "l2-resident" not in flags(*evidence(0.1, 70, cold=False))
    assert "l2-resident" not in flags(*evidence(0.1, 60))


def test_throttled_is_any_reason_but_idleness() -> None:
    for reasons, expected in (("", False), ("idle", False), ("power-cap", True), ("idle;sw-thermal", True)):
        assert ("throttled" in flags(*evidence(0.1, 415, throttle=reasons))) is expected


@pytest.mark.parametrize(
    ("ms", "more", "expected"),
    [
        (0.1, {"round_ms": (0.1, 0.1029, 0.1)}, False),
        (0.1, {"round_ms": (0.1, 0.1031, 0.1)}, True),
        (0.002, {"round_ms": (0.002, 0.002096)}, False),  # three ticks
        (0.1, {"ms_p20": 0.098, "ms_p80": 0.107}, False),
        (0.1, {"ms_p20": 0.098, "ms_p80": 0.109}, True),
        (0.005, {"ms_p20": 0.0045, "ms_p80": 0.0058}, False),  # the jitter of the events
    ],
)
def test_noisy(ms: float, more: dict[str, object], expected: bool) -> None:
    assert ("noisy" in flags(*evidence(ms, 1, **more))) is expected


@pytest.mark.parametrize("path", sorted(H200.glob("*.csv")), ids=lambda path: path.stem)
def test_nothing_measured_on_the_h200_is_suspect_or_the_baseline_under_another_name(path: Path) -> None:
    rows = [row for row in read_results(path).rows if row.ms]
    assert not any("same-ops" in row.flags for row in rows)
    empty_ms = {(row.case, row.session): row.ms for row in rows if row.provider == "empty"}
    # the clock changes while a row is throttled, and the host launches the loop's 8 to 128 products one by one
    rows = [row for row in rows if "throttled" not in row.flags and row.provider != "torch-loop"]
    for peak_gbps in (4917.0, None):
        raised: list[str] = []
        for row in rows:
            count = round((row.gbps or 0) * (row.ms or 0) * 1e6)
            of_row = context(call_bytes=count, ceiling_gbps=4100.0, peak_gbps=peak_gbps, cold=row.cache == "cold")
            raised += flags(row, of_row, empty_ms[row.case, row.session])
        assert "suspect" not in raised
        assert raised.count("noisy") < 0.25 * len(rows)
