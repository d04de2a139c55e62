"""The end of a run as the person reads it: the fastest provider of every case, what was left out and why, the files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kbench.results import PROVIDER, Row, Status
from kbench.terminal import microseconds


@dataclass(frozen=True)
class Table:
    header: tuple[str, ...]
    rows: list[list[str]]

    @property
    def numeric(self) -> tuple[str, ...]:
        return tuple(name for name in self.header if name not in ("dtype", "fastest"))


def winners(rows: Sequence[Row], axes: Sequence[str], baseline: str | None) -> Table:
    """One line per case: the fastest provider, its time, GB/s, share of the copy control, speed-up over the baseline."""
    header = (*axes, "dtype", "fastest", "us", "GB/s", "of copy", f"vs {baseline}" if baseline else "speed-up")
    sessions = {row.session for row in rows}
    if len(sessions) > 1:
        header = (*header, "session")
    lines = []
    for case_rows in by_case(rows).values():
        timed = [row for row in case_rows if row.role == PROVIDER and row.ms is not None]
        if not timed:
            continue
        best = min(timed, key=lambda row: row.ms or 0.0)
        line = [
            *(str(best.case.axes[name]) for name in axes),
            best.case.dtype,
            best.curve,
            microseconds(best.ms or 0.0),
            f"{best.gbps or 0.0:.1f}",
            f"{best.roofline:.2f}" if best.roofline else "-",
            f"{best.speedup:.2f}x" if best.speedup else "-",
        ]
        lines.append(line + [str(best.session)] * (len(sessions) > 1))
    return Table(header, lines)


def by_case(rows: Sequence[Row]) -> dict[tuple[object, ...], list[Row]]:
    """Rows grouped by case and session, in the order they were measured."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.session, *row.case.key), []).append(row)
    return groups


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
