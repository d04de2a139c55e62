"""Readings of one row by several timers: what they agree on, and which of them to believe.

The rules are those of do_bench, graph and cupti. The readings of another timer are shown, and say nothing about these three.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kbench.results.row import Row
from kbench.results.vocabulary import Control, Role
from kbench.text.terminal import microseconds

AGREE = 0.05
"""Readings that differ by less than this share agree. On an H200, do_bench less `empty` and `timer: cupti` differ by at most
4.8 % from 10 us on (docs/measuring.md, "Against CUPTI")."""

AGREE_MS = 1e-3
"""Readings that differ by less than this agree, however short they are. In one process, do_bench less `empty` is up to 0.5 us
above CUPTI, and `empty` itself is between 3.3 and 3.9 us from one process to the next (both on an H200)."""

GRAPH_GAP_MS = 1e-3
"""What a graph may add to a kernel: the gap to the next one."""

MOSTLY_TIMER = 0.2
"""From this share of the reading on, what do_bench adds hides the differences between kernels. It is that of the flag
overhead-bound."""


@dataclass(frozen=True)
class TimerReading:
    """What a timer has read for one configuration. Times are in ms; None for what is not known.

    timer     as a config calls it; `name` as the column `timer` does
    empty_ms  the control `empty` of the same run
    gap_ms    the part of the time between the kernels of the call
    why_not   why there is no time
    """

    timer: str
    name: str
    ms: float | None
    empty_ms: float | None
    kernels: int | None = None
    gap_ms: float | None = None
    why_not: str = ""

    @property
    def device_ms(self) -> float | None:
        """The time that the call itself takes on the device, as far as this timer can tell: do_bench less what it adds."""
        if self.ms is None or self.name != "do_bench":
            return self.ms
        return max(self.ms - (self.empty_ms or 0.0), 0.0)


@dataclass(frozen=True)
class Opinion:
    """Which timer to believe, and why.

    kind     a word for programs
    believe  the name of the timer; empty if no timer has a reading
    """

    kind: str
    believe: str
    sentence: str


def readings_of(rows: Mapping[str, Sequence[Row]], name: str) -> list[TimerReading]:
    """The readings of a configuration in the rows of a case, which were measured with each timer."""
    return [_reading(timer, found, name) for timer, found in rows.items()]


def _reading(timer: str, rows: Sequence[Row], name: str) -> TimerReading:
    row = next((each for each in rows if each.role == Role.PROVIDER and each.configuration_name == name), None)
    empty = next((each.ms for each in rows if each.role == Role.CONTROL and each.provider == Control.EMPTY), None)
    if row is None:
        return TimerReading(timer, timer, None, empty, why_not="the run has no row for it")
    why_not = "" if row.ms is not None else ": ".join(filter(None, [row.status.value, row.reason]))
    return TimerReading(timer, row.timer or timer, row.ms, empty, row.kernels, row.gap_ms, why_not)


def judge_readings(readings: Sequence[TimerReading]) -> Opinion:
    """Which of the readings to believe, and the reason."""
    timed = {each.timer: each for each in readings if each.ms is not None}
    if not timed:
        return Opinion("no-reading", "", "No timer could time it.")
    bench, graph, cupti = (timed.get(name) for name in ("do_bench", "graph", "cupti"))
    if bench is None or not (graph or cupti):
        believe = next(iter(timed)) if bench is None else bench.timer
        told = (
            f"Nothing confirms the reading of {believe}: that takes a reading of do_bench, and one of graph or cupti."
        )
        return Opinion("unconfirmed", believe, told)
    for judged in (_hidden(bench, cupti or graph), _profiled(bench, cupti), _replayed(bench, graph)):
        if judged:
            return judged
    return _agreeing(bench, graph, cupti)


def _hidden(bench: TimerReading, other: TimerReading | None) -> Opinion | None:
    """If nothing is left of do_bench's reading without what it adds."""
    if not other or _ms(bench) > AGREE_MS:
        return None
    own = microseconds(bench.empty_ms or 0.0)
    told = f"Nearly all that do_bench reads are the {own} us that it adds: believe {other.timer}."
    return Opinion("short-call", other.timer, told)


def _profiled(bench: TimerReading, cupti: TimerReading | None) -> Opinion | None:
    """If CUPTI and do_bench do not agree."""
    if not cupti or _agree(bench, cupti):
        return None
    both = f"{_told(bench)}, and {_told(cupti)}."
    if _ms(cupti) > _ms(bench):
        told = f"{both} A profiler lengthens some kernels: believe do_bench."
        return Opinion("profiler-lengthens", bench.timer, told)
    waited = microseconds(_ms(bench) - _ms(cupti))
    told = (
        f"{both} Between do_bench's events, the device waits for {waited} us before the first kernel of the call or after the "
        "last one, probably for the host. Believe cupti for the kernels, and do_bench for a program that makes the call."
    )
    return Opinion("device-waits", cupti.timer, told)


def _replayed(bench: TimerReading, graph: TimerReading | None) -> Opinion | None:
    """If the graph and do_bench do not agree."""
    if not graph or _agree(bench, graph, (bench.kernels or graph.kernels or 1) * GRAPH_GAP_MS):
        return None
    both = f"{_told(bench)}, and {_told(graph)}."
    if _ms(graph) < _ms(bench):
        several = (bench.kernels or 0) > 1
        cause = (
            "In a graph, the gaps between the kernels of a call are shorter"
            if several
            else "The buffers of a graph come round in a fixed order, so a call may find some of its data in the cache"
        )
    else:
        cause = "In a graph, a call also waits while memory takes what earlier calls wrote"
    told = f"{both} {cause}: believe do_bench, unless your program replays graphs."
    return Opinion("graph-differs", bench.timer, told)


def _agreeing(bench: TimerReading, graph: TimerReading | None, cupti: TimerReading | None) -> Opinion:
    others = [each for each in (cupti, graph) if each]
    names, own = " and ".join(each.timer for each in others), microseconds(bench.empty_ms or 0.0)
    share = (bench.empty_ms or 0.0) / bench.ms if bench.ms else 0.0
    if share > MOSTLY_TIMER:
        believe = others[0].timer
        told = (
            f"do_bench, without the {own} us that it adds, agrees with {names}. But these {own} us are {share:.0%} of its "
            f"reading: believe {believe}."
        )
        return Opinion("short-call", believe, told)
    told = f"do_bench, without the {own} us that it adds, agrees with {names}: believe do_bench."
    return Opinion("agree", bench.timer, told)


def _agree(one: TimerReading, other: TimerReading, more_ms: float = 0.0) -> bool:
    apart = abs(_ms(one) - _ms(other))
    return apart <= max(AGREE * min(_ms(one), _ms(other)), AGREE_MS + more_ms)


def _ms(reading: TimerReading) -> float:
    return reading.device_ms or 0.0


def _told(reading: TimerReading) -> str:
    """`do_bench reads 10.00 us, without what it adds`"""
    without = ", without what it adds" if reading.name == "do_bench" and reading.empty_ms else ""
    return f"{reading.timer} reads {microseconds(_ms(reading))} us{without}"


def reading_rows(readings: Sequence[TimerReading]) -> Iterator[list[str]]:
    """A line for each timer: its name, its reading, what it adds, the reading without that, the time between kernels, and why
    there is no reading."""
    for each in readings:
        added = each.empty_ms if each.ms is not None and each.name == "do_bench" else None
        yield [each.timer, _us(each.ms), _us(added), _us(each.device_ms), _us(each.gap_ms), each.why_not]


def _us(ms: float | None) -> str:
    return "" if ms is None else f"{microseconds(ms)} us"
