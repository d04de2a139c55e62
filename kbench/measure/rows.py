"""Makes rows of contenders: medians, GB/s, TFLOP/s, shares of the copy control and of the speed of light, flags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median, quantiles
from typing import Any

from kbench.measure.contender import Contender
from kbench.measure.experiment import Experiment
from kbench.measure.flags import flagged
from kbench.measure.machine.telemetry import telemetry_columns
from kbench.results.case import format_params
from kbench.results.row import Row
from kbench.results.vocabulary import KERNELS_NOT_KNOWN, Control, Status

TOO_SHORT = "not timed: a call takes less than a step of the timer's clock, so it seems to do nothing"


def make_rows(experiment: Experiment, contenders: Sequence[Contender]) -> list[Row]:
    """One row per contender, in the same order."""
    for contender in contenders:
        if contender.running and contender.rounds and not median(contender.round_ms):
            if experiment.unchecked:
                contender.end(Status.UNSUPPORTED, TOO_SHORT)
            else:
                contender.end(Status.CHECKED, f"correct, but {TOO_SHORT}")
    controls = [contender for contender in contenders if contender.control and contender.rounds]
    times_ms = {control.name: time_of(control) for control in controls}
    copy_ms, empty_ms = times_ms.get(Control.COPY), times_ms.get(Control.EMPTY)
    columns = experiment.columns()
    rows = [_row(experiment, contender, columns, copy_ms) for contender in contenders]
    return [flagged(row, contender, experiment, empty_ms) for row, contender in zip(rows, contenders, strict=True)]


def _row(experiment: Experiment, contender: Contender, columns: Mapping[str, Any], copy_ms: float | None) -> Row:
    launched = contender.recorded.launched
    row = Row(
        provider=contender.name,
        params=format_params(contender.params),
        role=contender.role,
        status=contender.status or Status.OK,
        reason=contender.reason or "; ".join(_remarks(contender, experiment.baseline)),
        build_ms=contender.build_ms,
        launch_ms=contender.launch_ms,
        deterministic=contender.accuracy.deterministic,
        source_hash=contender.provider.source_hash if contender.provider else "",
        kernels=launched.kernels if launched else None,
        code=launched.code if launched else "",
        peak_bytes=contender.recorded.peak_bytes,
        **columns,
        **_numbers(experiment, contender, copy_ms),
        **telemetry_columns(contender.readings),
    )
    if not contender.control and row.status in (Status.OK, Status.CHECKED, Status.WRONG):
        row.max_ulp, row.max_rel_err = contender.accuracy.max_ulp, contender.accuracy.max_rel_err
    return row


def _remarks(contender: Contender, baseline: Contender | None) -> Iterator[str]:
    """What readers should know of a row that has not failed."""
    if contender.altered:
        yield contender.altered
    if baseline and contender.runs_operators_of(baseline):
        yield f"runs the same torch operators as the baseline {baseline.configuration_name}: {contender.operators}"
    if functions := sorted(contender.compiled.uncompiled):
        yield f"torch.compile reached its recompile limit and runs {', '.join(functions)} uncompiled"
    if contender.operators.fault:
        yield f"its torch operators are not known: {contender.operators.fault} (while kbench recorded them)"
    if contender.recorded.fault:
        yield f"{KERNELS_NOT_KNOWN}{contender.recorded.fault}"


def _numbers(experiment: Experiment, contender: Contender, copy_ms: float | None) -> dict[str, Any]:
    """Times and speeds. `ms` is the median of the rounds' medians; p20, p80 and min are of all samples."""
    if not contender.rounds:
        return {}
    samples = sorted(sample for samples in contender.rounds for sample in samples)
    round_ms = tuple(map(_picoseconds, contender.round_ms))
    ms = time_of(contender)
    baseline = experiment.baseline
    precision = contender.precision(baseline, experiment.kind.resolution_ms)
    cuts = quantiles(samples, n=5, method="inclusive") if len(samples) > 1 else 2 * samples
    ms_p20, ms_p80 = _picoseconds(cuts[0]), _picoseconds(cuts[-1])
    moves = 0 if contender.control and contender.name == Control.EMPTY else experiment.work.call_bytes
    computes = not contender.control or contender.name == Control.REPEAT
    light_ms = experiment.light_ms if computes else None
    copy_gbps = gbps(experiment.work.call_bytes, copy_ms) if copy_ms and moves else None
    baseline_ms = time_of(baseline) if baseline and baseline.rounds and computes else None
    return {
        "ms": ms,
        "ms_p20": ms_p20,
        "ms_p80": ms_p80,
        "ms_min": _picoseconds(samples[0]),
        "round_ms": round_ms,
        "gap_ms": _picoseconds(median(contender.gaps_ms)) if contender.gaps_ms else None,
        "samples": len(samples),
        "precision": None if precision is None else precision.share,
        "gbps": gbps(moves, ms),
        "gbps_p20": gbps(moves, ms_p80),
        "gbps_p80": gbps(moves, ms_p20),
        "copy_fraction": gbps(moves, ms) / copy_gbps if copy_gbps else None,
        "achieved_gbps": None if contender.moved_bytes is None else gbps(contender.moved_bytes, ms),
        "tflops": None if experiment.work.flops is None or not computes else experiment.work.flops / ms * 1e-9,
        "speedup": baseline_ms / ms if baseline_ms else None,
        "sol": None if light_ms is None else light_ms / ms,
        **({**contender.stages, "kernel_ms": ms} if contender.stages else {}),
    }


def time_of(contender: Contender) -> float:
    """The column `ms` of a contender that was timed."""
    return _picoseconds(median(map(_picoseconds, contender.round_ms)))


def gbps(count: int, ms: float) -> float:
    """GB/s (1e9 bytes per second) from bytes and ms."""
    return count / ms * 1e-6


def _picoseconds(ms: float) -> float:
    """A time in ms, rounded to picoseconds: no clock is finer."""
    return round(ms, 9)
