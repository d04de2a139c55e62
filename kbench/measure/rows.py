"""From entries to rows: medians, GB/s, shares of the ceiling, flags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

from kbench.measure.entry import Entry
from kbench.measure.flags import Evidence, flags
from kbench.measure.machine.telemetry import summary
from kbench.results.row import PROVIDER, Case, Row, Status, format_params


@dataclass(frozen=True)
class Frame:
    """What all rows of a case have in common. `common` are columns as they stand; bandwidths in GB/s; `prefill_ms` is the
    longest that the timer can keep the device busy before a launch; `cold` says whether calls really found the cache cold."""

    case: Case
    call_bytes: int
    baseline: int | None
    cache_bytes: int | None
    ceiling_gbps: float | None
    peak_gbps: float | None
    accelerated: bool
    prefill_ms: float
    cold: bool
    common: dict[str, Any]


def make_rows(frame: Frame, entries: Sequence[Entry]) -> list[Row]:
    """One row per entry, in their order."""
    rows = [_row(frame, entry) for entry in entries]
    times = {row.provider: row for row in rows if row.role != PROVIDER and row.ms is not None}
    copy, empty = times.get("copy"), times.get("empty")
    base = rows[frame.baseline] if frame.baseline is not None else None
    for row in rows:
        if row.ms is None:
            continue
        if row.gbps and copy and copy.gbps:
            row.copy_fraction = row.gbps / copy.gbps
        if base and base.ms and (row.role == PROVIDER or row.provider == "repeat"):
            row.speedup = base.ms / row.ms
        row.flags = flags(_evidence(frame, row, empty.ms if empty and row is not empty else None))
    return rows


def _row(frame: Frame, entry: Entry) -> Row:
    row = Row(
        case=frame.case,
        provider=entry.name,
        params=format_params(entry.params),
        role=entry.role,
        status=entry.status or Status.OK,
        reason=entry.reason,
        build_ms=entry.build_ms,
        launch_ms=entry.launch_ms,
        ceiling_gbps=frame.ceiling_gbps,
        deterministic=entry.accuracy.deterministic,
        source_hash=entry.provider.source_hash if entry.provider else "",
        **frame.common,
        **_numbers(frame, entry),
        **summary(entry.readings),
    )
    if not entry.control and row.status in (Status.OK, Status.CHECKED, Status.WRONG):
        row.max_ulp, row.max_rel_err = entry.accuracy.max_ulp, entry.accuracy.max_rel_err
    return row


def _numbers(frame: Frame, entry: Entry) -> dict[str, Any]:
    """Times and speeds. The median is that of the rounds' medians; p20, p80 and min are over all samples."""
    if not entry.rounds:
        return {}
    samples = sorted(sample for samples in entry.rounds for sample in samples)
    round_ms = tuple(median(samples) for samples in entry.rounds)
    ms, ms_p20, ms_p80 = median(round_ms), *_p20_p80(samples)
    moves = 0 if entry.control and entry.name == "empty" else frame.call_bytes
    return {
        "ms": ms,
        "ms_p20": ms_p20,
        "ms_p80": ms_p80,
        "ms_min": samples[0],
        "round_ms": round_ms,
        "samples": len(samples),
        "gbps": gbps(moves, ms),
        "gbps_p20": gbps(moves, ms_p80),
        "gbps_p80": gbps(moves, ms_p20),
        "achieved_gbps": None if entry.moved_bytes is None else gbps(entry.moved_bytes, ms),
        **({**entry.stages, "kernel_ms": ms} if entry.stages else {}),
    }


def _evidence(frame: Frame, row: Row, empty_ms: float | None) -> Evidence:
    assert row.ms is not None and row.ms_p20 is not None and row.ms_p80 is not None
    return Evidence(
        ms=row.ms,
        ms_p20=row.ms_p20,
        ms_p80=row.ms_p80,
        round_ms=row.round_ms,
        gbps=row.gbps or 0.0,
        bytes=frame.call_bytes if row.gbps else 0,
        timer=row.timer,
        cache="cold" if frame.cold else "warm",
        accelerated=frame.accelerated,
        prefill_ms=frame.prefill_ms,
        launch_ms=row.launch_ms,
        empty_ms=empty_ms,
        cache_bytes=frame.cache_bytes,
        ceiling_gbps=frame.ceiling_gbps,
        peak_gbps=frame.peak_gbps,
        throttle=row.throttle,
    )


def gbps(count: int, ms: float) -> float:
    """Bytes and ms as GB/s (1e9 bytes per second)."""
    return count / ms * 1e-6


def _p20_p80(samples: list[float]) -> tuple[float, float]:
    if len(samples) == 1:
        return samples[0], samples[0]
    cuts = quantiles(samples, n=5, method="inclusive")
    return cuts[0], cuts[3]
