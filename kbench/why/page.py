"""`kbench why` as text and as JSON, and the command that measures a row again under NVIDIA Nsight Compute."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from math import prod
from typing import Any

from kbench.launches.launched_call import KernelLaunch, LaunchedCall
from kbench.text.numbers import microseconds
from kbench.why.facts import RowFacts
from kbench.why.reasons import find_reasons

IN_JSON = (
    "device", "timer", "cache", "status", "reason", "flags", "ms", "gap_ms", "launch_ms", "sol", "copy_fraction", "sm_mhz",
    "kernels", "code", "peak_bytes",
)  # fmt: skip
"""The columns of the results that the JSON repeats."""

CALLS_BEFORE = 50
"""So many calls of a run are not counted under Nsight Compute: they build the provider, check it and warm it up."""


def case_line(facts: RowFacts) -> str:
    """The case and the device: `softmax M=4096 N=256 float32 on NVIDIA H200, timer do_bench, cache cold`."""
    row = facts.row
    timer, cache = f"timer {row.timer}" if row.timer else "", f"cache {row.cache}" if row.cache else ""
    return ", ".join(filter(None, [f"{row.case.label} on {row.device}", timer, cache]))


def fact_rows(columns: Sequence[RowFacts]) -> list[list[str]]:
    """What is known of rows side by side: a line for each fact that at least one of them has, its name first."""
    named = [dict(_cells(facts)) for facts in columns]
    lines = ([name, *(facts[name] for facts in named)] for name in named[0])
    return [line for line in lines if any(line[1:])]


def _cells(facts: RowFacts) -> Iterator[tuple[str, str]]:
    row = facts.row
    yield "time", _us(row.ms)
    yield "of which between its kernels", _us(row.gap_ms)
    yield "share of the speed of light", _share(facts.light)
    yield "share of a copy's speed", _share(row.copy_fraction)
    yield "algorithmic bytes", _counted(facts.call_bytes, "B")
    yield "floating-point operations", _counted(facts.flops)
    yield "launch overhead (host)", _us(row.launch_ms)
    yield "timer overhead (empty)", _us(facts.empty_ms)
    yield "kernels per call", "" if row.kernels is None else str(row.kernels)
    yield "code", row.code
    yield "peak memory of a call", "" if row.peak_bytes is None else f"{row.peak_bytes / 1e6:.1f} MB"
    yield "clock", "" if row.sm_mhz is None else f"{row.sm_mhz:.0f} MHz"
    yield "sessions", str(len(facts.rows))
    yield "flags", ", ".join(row.flags)


def kernel_lines(facts: RowFacts) -> Iterator[str]:
    """What a call launches: a line for each kernel, and one for each operation on memory."""
    if facts.call is None:
        yield f"not known: {facts.unknown}"
        return
    for launch in facts.call.launches:
        yield _kernel(launch, facts)
    for operation in facts.call.memory:
        yield f"{operation.operation} of {operation.bytes} bytes{_times(operation.times)}"


def _kernel(launch: KernelLaunch, facts: RowFacts) -> str:
    kernel, parts = launch.kernel, []
    parts.append(f"{prod(launch.grid)} blocks of {prod(launch.block)} threads")
    parts.append(f"{kernel.registers} registers")
    parts.append(f"{kernel.local_bytes} bytes of local memory per thread" if kernel.local_bytes else "no local memory")
    shared = kernel.static_shared_bytes + launch.dynamic_shared_bytes
    parts.append(f"{shared} bytes of shared memory" if shared else "no shared memory")
    if occupancy := facts.occupancy(launch):
        limit = f", limited by {' and '.join(occupancy.limits)}" if occupancy.limits else ""
        parts.append(f"occupancy {occupancy.share:.0%}{limit}")
        parts.append(f"fills the device {occupancy.waves:.2f} times")
    return f"{kernel.name}{_times(launch.times)}: {', '.join(parts)}; code {kernel.code} ({kernel.origin})"


def _times(count: int) -> str:
    return f" ({count} times)" if count > 1 else ""


def _us(ms: float | None) -> str:
    return "" if ms is None else f"{microseconds(ms)} us"


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def _counted(count: int | None, of: str = "") -> str:
    """`134.2 MB`, `1.07 G`"""
    if count is None:
        return ""
    prefixes = (("G", 1e9), ("M", 1e6), ("k", 1e3))
    prefix, size = next((pair for pair in prefixes if count >= pair[1]), ("", 1))
    return f"{count / size:.4g} {prefix}{of}".strip()


def rows_as_json(columns: Sequence[RowFacts]) -> str:
    """An object with the rows: facts, reasons, launches with their occupancy, and the command that counts."""
    return json.dumps({"schema": "kbench.why/1", "rows": [_as_json(facts) for facts in columns]}, indent=1) + "\n"


def _as_json(facts: RowFacts) -> dict[str, Any]:
    call = facts.call or LaunchedCall()
    return {
        "case": facts.row.case.to_json(),
        "name": facts.name,
        "sessions": len(facts.rows),
        **{name: getattr(facts.row, name) for name in IN_JSON},
        **{name: getattr(facts, name) for name in ("empty_ms", "call_bytes", "flops", "moved", "top_mhz")},
        "reasons": [asdict(reason) for reason in find_reasons(facts)],
        "launches": [_launch_as_json(launch, facts) for launch in call.launches],
        "memory": [asdict(operation) for operation in call.memory],
        "device_limits": asdict(facts.limits) if facts.limits else None,
        "ncu": ncu_command(facts),
    }


def _launch_as_json(launch: KernelLaunch, facts: RowFacts) -> dict[str, Any]:
    occupancy = facts.occupancy(launch)
    return asdict(launch) | {"occupancy": asdict(occupancy) if occupancy else None}


def ncu_command(facts: RowFacts) -> str:
    """The shell command; it counts in the kernels of one call. Empty if it is not known which kernels those are, or which
    config measured the row."""
    if not facts.call or not facts.call.launches or not facts.config:
        return ""
    launches = sum(launch.times for launch in facts.call.launches)
    symbols = sorted({re.escape(launch.kernel.symbol) for launch in facts.call.launches})
    kernels = ["--kernel-name-base", "mangled", "--kernel-name", f"regex:^({'|'.join(symbols)})$"]
    call = ["--launch-skip", str(CALLS_BEFORE * launches), "--launch-count", str(launches)]
    cache = "none" if facts.row.cache == "warm" else "all"
    how = ["--target-processes", "all", "--clock-control", "none", "--cache-control", cache, "--set", "full"]
    run = ["kbench", "run", facts.config, "--only", facts.name, *facts.row.case.set_options()]
    return shlex.join(["ncu", *kernels, *call, *how, *run, "--no-plot", "--out", "counted"])
