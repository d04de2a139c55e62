"""The end of a run as the person reads it: the fastest provider of every case, how far to trust that, what was left out
and why."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median

from kbench import rounds
from kbench.results import CONTROL, PROVIDER, TICK_MS, Row, Status
from kbench.terminal import microseconds

SUSPECT, NOISY = "suspect", "noisy"
"""Flags (see measure/flags.py). What is suspect wins nothing."""

STAGES = {
    "alloc_ms": "allocate",
    "h2d_ms": "host to device",
    "kernel_ms": "kernel",
    "d2h_ms": "device to host",
}


@dataclass(frozen=True)
class Table:
    header: tuple[str, ...]
    rows: list[list[str]]

    @property
    def numeric(self) -> tuple[str, ...]:
        return tuple(name for name in self.header if name not in ("dtype", "fastest", "provider", "flags"))


@dataclass(frozen=True)
class NoiseFloor:
    """How far two measurements of the same code lie apart in this run: the `repeat` control against the baseline.

    `seen` maps a case (as `by_case` keys it) to |ms(repeat) / ms(baseline) - 1|; `noisy` are the cases whose repeat control
    is flagged so, unless all are. One pair says little about its case, so that a case's floor is at least what 95 % of the
    quiet pairs of the run stay within. It is also at least the case's own pair (a noisy case raises its own floor, not
    everybody's) and two ticks of the clock.
    """

    seen: Mapping[tuple[object, ...], float]
    noisy: frozenset[tuple[object, ...]]

    @classmethod
    def of(cls, rows: Sequence[Row]) -> NoiseFloor:
        pairs = [row for row in rows if row.role == CONTROL and row.provider == "repeat" and row.speedup]
        noisy = frozenset(_case(row) for row in pairs if NOISY in row.flags)
        seen = {_case(row): abs(1 / row.speedup - 1) for row in pairs if row.speedup}
        return cls(seen, noisy if len(noisy) < len(seen) else frozenset())

    @cached_property
    def usual(self) -> float:
        """What 95 % of the quiet pairs stay within: the smallest such value that was seen, 0 when none was."""
        quiet = sorted(share for case, share in self.seen.items() if case not in self.noisy)
        return quiet[math.ceil(0.95 * len(quiet)) - 1] if quiet else 0.0

    def at(self, row: Row) -> float:
        """The floor for the case of a row, as a share of its time. Calls inside a graph are not single readings of the
        clock, so that its resolution does not bound them."""
        resolution = 2 * TICK_MS / row.ms if row.ms and row.timer != "graph" else 0.0
        return max(self.usual, self.seen.get(_case(row), 0.0), resolution)

    def between(self, curve: Sequence[Row], other: Sequence[Row]) -> float:
        """The floor for a difference between two curves of a case, given their rows of one or more sessions. The repeat
        control says what the case's usual noise is; where the rounds of these two disagree by more about which is the
        faster, and by how much, it is that."""
        ratios = [
            ratio
            for row in curve
            for its in other
            if row.session == its.session
            for ratio in rounds.ratios(row.round_ms, its.round_ms)
        ]
        scatter = math.expm1(rounds.CONFIDENT * rounds.standard_error(ratios))
        return max(scatter, *(self.at(row) for row in curve))

    def __str__(self) -> str:
        if not self.seen:
            return "noise floor: not known without a baseline to repeat"
        pairs = sorted(self.seen.values())
        own = f"; its own for {_count(self.noisy)} flagged noisy" if self.noisy else ""
        return (
            f"noise floor: {_percent(self.usual)} (repeat control, {_count(self.seen)}, median {_percent(median(pairs))}, "
            f"worst {_percent(pairs[-1])}{own}); speed-ups within it are printed as ties"
        )


def winners(rows: Sequence[Row], axes: Sequence[str], baseline: str | None) -> Table:
    """One line per case: the fastest provider and who is as fast (`cuda ~ triton`), its time, GB/s, share of the copy
    control, speed-up over the baseline, largest error, and flags where a winner has any. Suspect rows do not take part.
    With several sessions the one of the median time stands for each curve."""
    floor = NoiseFloor.of(rows)
    lines, notes = [], []
    cases: dict[object, list[Row]] = {}
    for row in rows:
        cases.setdefault(row.case.key, []).append(row)
    for everyone in cases.values():
        curves, members = by_curve(everyone), _typical(everyone)
        ranked = sorted((row for row in members if _competes(row)), key=lambda row: row.ms or 0.0)
        if not ranked:
            continue
        best = ranked[0]
        tied = [
            row for row in ranked[1:] if _within(floor.between(curves[best.curve], curves[row.curve]), row.ms, best.ms)
        ]
        noise = floor.between(curves[best.curve], curves.get(baseline or "", []))
        trusted = all(SUSPECT not in row.flags for row in members if row.curve == baseline)
        lines.append(
            [
                *(str(best.case.axes[name]) for name in axes),
                best.case.dtype,
                best.curve + (f" ~ {tied[0].curve if len(tied) == 1 else f'{len(tied)} others'}" if tied else ""),
                microseconds(best.ms or 0.0),
                f"{best.gbps or 0.0:.1f}",
                f"{best.roofline:.2f}" if best.roofline else "-",
                _speedup(best, baseline, noise) if trusted else "-",
                ulps(best.max_ulp),
            ]
        )
        notes.append(", ".join(best.flags))
    header = (*axes, "dtype", "fastest", "us", "GB/s", "of copy", f"vs {baseline}" if baseline else "speed-up", "ulp")
    if any(notes):
        header = (*header, "flags")
        lines = [[*line, flags] for line, flags in zip(lines, notes, strict=True)]
    return Table(header, lines)


def by_curve(members: Sequence[Row]) -> dict[str, list[Row]]:
    """The timed rows of a case, by provider and its parameters: a row per session each."""
    curves: dict[str, list[Row]] = {}
    for row in members:
        if row.role == PROVIDER and row.ms is not None:
            curves.setdefault(row.curve, []).append(row)
    return curves


def _typical(members: Sequence[Row]) -> list[Row]:
    """A row per provider and its parameters: the session of the (lower) median time, with the flags of all sessions."""
    return [
        replace(
            sorted(sessions, key=lambda row: row.ms or 0.0)[(len(sessions) - 1) // 2],
            flags=tuple(dict.fromkeys(flag for row in sessions for flag in row.flags)),
        )
        for sessions in by_curve(members).values()
    ]


def _competes(row: Row) -> bool:
    return SUSPECT not in row.flags


def _speedup(row: Row, baseline: str | None, noise: float) -> str:
    if not row.speedup:
        return "-"
    if row.curve == baseline:
        return "baseline"
    return "tie" if _within(noise, row.speedup, 1.0) else f"{row.speedup:.2f}x"


def _within(share: float, a: float | None, b: float | None) -> bool:
    """Whether two positive numbers are at most this share of the smaller one apart."""
    return a is not None and b is not None and max(a, b) <= (1 + share) * min(a, b)


def _count(keys: Collection[tuple[object, ...]]) -> str:
    cases = len({key[1:] for key in keys})
    return f"{cases} case{'s' * (cases != 1)}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def ulps(value: float | None) -> str:
    """An error in units in the last place, as people read it: two significant digits while they mean something."""
    return "-" if value is None else f"{value:.1f}" if value < 9.95 else f"{value:.0f}"


def stages(rows: Sequence[Row], axes: Sequence[str]) -> Table:
    """What a call costs beside its kernel, in ms: a line per case and provider that was measured so; empty otherwise."""
    measured = [row for row in rows if row.role == PROVIDER and row.alloc_ms is not None]
    return Table(
        (*axes, "dtype", "provider", *STAGES.values()),
        [
            [
                *(str(row.case.axes[name]) for name in axes),
                row.case.dtype,
                row.curve,
                *("-" if (ms := getattr(row, name)) is None else f"{ms:.3f}" for name in STAGES),
            ]
            for row in measured
        ],
    )


def caveats(rows: Sequence[Row]) -> list[str]:
    """Lines on how far to trust the table: the noise floor, how often each flag was raised, who is not reproducible."""
    providers = [row for row in rows if row.role == PROVIDER]
    lines = [str(NoiseFloor.of(rows))] if any(row.ms is not None for row in providers) else []
    raised = Counter(flag for row in providers for flag in row.flags)
    if raised:
        counted = ", ".join(f"{count} {flag}" for flag, count in raised.most_common())
        lines.append(f"flags: {counted} (kbench explain {next(iter(raised.most_common()))[0]})")
    varying = Counter(row.curve for row in providers if row.identical is False)
    if varying:
        counted = ", ".join(f"{curve} ({count} case{'s' * (count != 1)})" for curve, count in varying.items())
        lines.append(f"not bit-identical between calls: {counted}")
    return lines


def by_case(rows: Sequence[Row]) -> dict[tuple[object, ...], list[Row]]:
    """Rows grouped by case and session, in the order they were measured."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(_case(row), []).append(row)
    return groups


def _case(row: Row) -> tuple[object, ...]:
    return (row.session, *row.case.key)


def left_out(rows: Sequence[Row]) -> list[str]:
    """One line per provider and status for everything that has no time: what, why, on how many cases."""
    groups: dict[tuple[str, Status], list[Row]] = {}
    for row in rows:
        if row.status is not Status.OK:
            groups.setdefault((row.curve, row.status), []).append(row)
    lines = []
    for (curve, status), members in groups.items():
        reasons = list(dict.fromkeys(row.reason for row in members if row.reason))
        why = f": {reasons[0]}" if reasons else ": right, but not timed under the Triton interpreter"
        more = f", and {len(reasons) - 1} more reasons (see the CSV)" if len(reasons) > 1 else ""
        count = f"{len(members)} case" + "s" * (len(members) > 1)
        lines.append(f"{curve}: {status.value} ({count}){why}{more}")
    return lines


def counts(rows: Sequence[Row]) -> str:
    """`45 ok, 9 checked, 3 unavailable`: providers only, controls left out."""
    statuses = [row.status for row in rows if row.role == PROVIDER]
    return ", ".join(f"{statuses.count(status)} {status.value}" for status in Status if status in statuses)
