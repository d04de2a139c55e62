"""`kbench why` as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from kbench.launches.launched_call import KernelLaunch
from kbench.results.vocabulary import KERNELS_NOT_KNOWN
from kbench.text.terminal import microseconds
from kbench.why.facts import RowFacts
from kbench.why.ncu_commands import count_command, import_command
from kbench.why.reasons import find_reasons

MOST_KERNELS_SHOWN = 12


def case_line(facts: RowFacts) -> str:
    """The case and the device: `softmax M=4096 N=256 float32 on NVIDIA H200, timer do_bench, cache cold`."""
    how = [
        part
        for part in (f"timer {facts.timer}" * bool(facts.timer), f"cache {facts.cache}" * bool(facts.cache))
        if part
    ]
    return ", ".join([f"{facts.case.label} on {facts.device}", *how])


def reason_lines(facts: RowFacts) -> Iterator[str]:
    """The reasons for a time, a sentence each."""
    for number, reason in enumerate(find_reasons(facts), 1):
        yield f"{number}. {reason.sentence}"


def fact_rows(columns: Sequence[RowFacts]) -> list[list[str]]:
    """What is known of rows side by side: a line for each fact that at least one of them has, its name first."""
    named = [dict(_cells(facts)) for facts in columns]
    lines = ([name, *(facts[name] for facts in named)] for name in named[0])
    return [line for line in lines if any(line[1:])]


def _cells(facts: RowFacts) -> Iterator[tuple[str, str]]:
    yield "time", _us(facts.ms)
    yield "of which between its kernels", _us(facts.gap_ms)
    yield "share of the speed of light", _share(facts.sol)
    yield "share of a copy's speed", _share(facts.copy_fraction)
    yield "algorithmic bytes", _counted(facts.call_bytes)
    yield "floating-point operations", _counted(facts.flops)
    yield "launch overhead (host)", _us(facts.launch_ms)
    yield "timer overhead (empty)", _us(facts.empty_ms)
    yield "kernels per call", "" if facts.kernels is None else str(facts.kernels)
    yield "code", facts.code
    yield "peak memory of a call", "" if facts.peak_bytes is None else f"{facts.peak_bytes / 1e6:.1f} MB"
    yield "energy of a call, with the work around it", "" if facts.energy_mj is None else f"{facts.energy_mj:.3g} mJ"
    yield "clock", "" if facts.sm_mhz is None else f"{facts.sm_mhz:.0f} MHz"
    yield "sessions", str(facts.sessions)
    yield "flags", ", ".join(facts.flags)


def kernel_lines(facts: RowFacts) -> Iterator[str]:
    """What a call launches: a line for each kernel, and one for each operation on memory."""
    if facts.call is None:
        yield f"what a call launches is not known: {_why_not_known(facts)}"
        return
    for launch in facts.call.launches[:MOST_KERNELS_SHOWN]:
        yield _kernel(launch, facts)
    if (more := len(facts.call.launches) - MOST_KERNELS_SHOWN) > 0:
        yield f"{more} more"
    for each in facts.call.memory:
        yield f"{each.operation} of {each.bytes} bytes{_times(each.times)}"


def _kernel(launch: KernelLaunch, facts: RowFacts) -> str:
    kernel, parts = launch.kernel, []
    parts.append(f"{prod(launch.grid)} blocks of {prod(launch.block)} threads")
    parts.append(f"{kernel.registers} registers")
    parts.append(f"{kernel.local_bytes} bytes of local memory per thread" if kernel.local_bytes else "no local memory")
    shared = kernel.static_shared_bytes + launch.dynamic_shared_bytes
    parts.append(f"{shared} bytes of shared memory" if shared else "no shared memory")
    if found := facts.occupancy(launch):
        limit = f", limited by {' and '.join(found.limits)}" if found.limits else ""
        parts.append(f"occupancy {found.share:.0%}{limit}")
        parts.append(f"fills the device {found.waves:.2f} times")
    return f"{kernel.name}{_times(launch.times)}: {', '.join(parts)}; code {kernel.code} ({kernel.origin})"


def counter_lines(facts: RowFacts) -> Iterator[str]:
    """How to count what the kernels do, and how to read the report; none for a row whose kernels are not known."""
    if command := count_command(facts):
        yield "Hardware counters say more. Where NVIDIA Nsight Compute (ncu) is installed and permitted, this counts:"
        yield command
        yield "This then shows the page with the report:"
        yield import_command(facts)


def _why_not_known(facts: RowFacts) -> str:
    _, _, fault = facts.reason.partition(KERNELS_NOT_KNOWN)
    if fault:
        return fault
    if facts.ms is None:
        return f"the row is {facts.status}, and kbench records the calls of timed rows only"
    if facts.on_host:
        return f"it was measured on a CPU ({facts.device}), and kbench records kernels of NVIDIA devices only"
    if not facts.code:
        return (
            "the run recorded no kernels; possible reasons: it had no NVIDIA device, it had `kernels: false`, it measured a "
            "script, or kbench was older"
        )
    if facts.kernels_missing:
        return f"{facts.kernels_file} is missing; copy it to the folder of the results file"
    return f"{facts.kernels_file} has no entry with the digest {facts.code}, which this row names"


def _times(count: int) -> str:
    return f" ({count} times)" if count > 1 else ""


def _us(ms: float | None) -> str:
    return "" if ms is None else f"{microseconds(ms)} us"


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def _counted(count: int | None) -> str:
    """`134.2 M`, `1.07 G`"""
    if count is None:
        return ""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return str(count)
